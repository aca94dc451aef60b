// SPDX-License-Identifier: MIT
#include "memprof/memtrace_packet.h"

#include <string.h>

enum { TIME_BITS = 25 };

/* The first byte of a varying number that does not fit into one byte. */
enum { TWO_BYTES = 253, FOUR_BYTES = 254, EIGHT_BYTES = 255 };

size_t memtrace_packet_room(const struct memtrace_packet *p)
{
	return sizeof(p->bytes) - p->n;
}

void memtrace_put(struct memtrace_packet *p, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes && p->n < sizeof(p->bytes); i++)
		p->bytes[p->n++] = (uint8_t)(value >> 8 * i);
}

void memtrace_put_varying(struct memtrace_packet *p, uint64_t value)
{
	if (value < TWO_BYTES) {
		memtrace_put(p, value, 1);
	} else if (value <= UINT16_MAX) {
		memtrace_put(p, TWO_BYTES, 1);
		memtrace_put(p, value, 2);
	} else if (value <= INT32_MAX) { /* the reader takes the 4 bytes for a signed number */
		memtrace_put(p, FOUR_BYTES, 1);
		memtrace_put(p, value, 4);
	} else {
		memtrace_put(p, EIGHT_BYTES, 1);
		memtrace_put(p, value, 8);
	}
}

static void put_bytes(struct memtrace_packet *p, const char *from, size_t bytes)
{
	const size_t room = memtrace_packet_room(p), n = bytes < room ? bytes : room;

	memcpy(p->bytes + p->n, from, n);
	p->n += n;
}

void memtrace_put_text(struct memtrace_packet *p, const char *text, size_t bytes, const char *end)
{
	put_bytes(p, text, bytes);
	put_bytes(p, end, strlen(end) + 1);
}

void memtrace_put_event(struct memtrace_packet *p, unsigned int kind, uint64_t us)
{
	p->last_us = us;
	memtrace_put(p, kind << TIME_BITS | (us & ((1U << TIME_BITS) - 1)), MEMTRACE_EVENT_BYTES);
}

void memtrace_packet_begin(struct memtrace_packet *p, uint64_t us, uint64_t block,
			   struct memtrace_check check)
{
	p->n = MEMTRACE_HEADER_BYTES;
	p->first_us = p->last_us = us;
	p->first_block = p->next_block = block;
	p->check = check;
}

void memtrace_packet_end(struct memtrace_packet *p)
{
	const size_t n = p->n;

	p->n = 0;
	memtrace_put(p, (uint32_t)MEMTRACE_MAGIC, 4);
	memtrace_put(p, 8 * n, 4);
	memtrace_put(p, p->first_us, 8);
	memtrace_put(p, p->last_us, 8);
	memtrace_put(p, 0, 4);
	memtrace_put(p, MEMTRACE_VERSION, 2);
	memtrace_put(p, p->pid, 8);
	memtrace_put(p, p->check.bucket, 2);
	memtrace_put(p, p->check.next, 2);
	memtrace_put(p, p->check.code, 8);
	memtrace_put(p, p->first_block, 8);
	memtrace_put(p, p->next_block, 8);
	p->n = n;
}

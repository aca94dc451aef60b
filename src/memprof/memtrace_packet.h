/* SPDX-License-Identifier: MIT */
/*
 * The packets of a memtrace file, version 2. A packet is a header and a sequence of events. All
 * numbers are little-endian, all texts end with 0, and nothing is aligned. See src/trace.ml of
 * memtrace.
 *
 *	header	u32 magic, u32 bits of the packet, u64 time of the first event, u64 time of the last
 *		event, u32 0, u16 version, u64 process; a cache entry (see memtrace_stacks.h): u16
 *		bucket, u16 next bucket, u64 code; u64 number of the first block that is allocated
 *		in the packet, u64 number of the first block of the next packet
 *	event	u32 low 25 bits of the time, kind << 25; the fields of the kind
 *
 * Times are microseconds since 1970.
 */
#ifndef MEMPROF_MEMTRACE_PACKET_H
#define MEMPROF_MEMTRACE_PACKET_H

#include <stddef.h>
#include <stdint.h>

enum {
	MEMTRACE_MAGIC = (int)0xc1fc1fc1,
	MEMTRACE_VERSION = 2,
	MEMTRACE_HEADER_BYTES = 66,
	MEMTRACE_EVENT_BYTES = 4, /* size of the part that all events have */
	/* The library memtrace cannot read longer packets. */
	MEMTRACE_PACKET_BYTES = 1 << 15,
	/* The most bytes of a number that memtrace_put_varying() writes. */
	MEMTRACE_VARYING_BYTES = 9,
	/*
	 * Limit for the time span of a packet, in microseconds. An event contains only the low 25
	 * bits of its time, which repeat every 33 s. So the span must be shorter than that.
	 */
	MEMTRACE_MAX_SPAN = 30 * 1000 * 1000,
};

enum memtrace_event {
	MEMTRACE_INFO,
	MEMTRACE_LOCATION,
	MEMTRACE_ALLOC,
	MEMTRACE_PROMOTE,
	MEMTRACE_COLLECT,
	/*
	 * One sample of a block in the minor heap. The block's number of words, at most
	 * MEMTRACE_SHORT_WORDS, is added to this kind.
	 */
	MEMTRACE_SHORT_ALLOC = 100,
	MEMTRACE_SHORT_WORDS = 16,
};

/*
 * An entry of the writer's cache, written at the start of a packet. The reader compares the entry
 * with the same entry of its own cache.
 */
struct memtrace_check {
	uint16_t bucket, next;
	uint64_t code;
};

#define MEMTRACE_NO_CHECK ((struct memtrace_check){ .bucket = 0xffff })

struct memtrace_packet {
	size_t n; /* number of bytes, including the header; MEMTRACE_HEADER_BYTES: no events */
	uint64_t pid;
	uint64_t first_us, last_us;
	uint64_t first_block, next_block;
	struct memtrace_check check;
	uint8_t bytes[MEMTRACE_PACKET_BYTES];
};

/*
 * Make PACKET empty. Its events start at the time US or later, and BLOCK is the number of the first
 * block that is allocated in it.
 */
void memtrace_packet_begin(struct memtrace_packet *packet, uint64_t us, uint64_t block,
			   struct memtrace_check check);

/* Fill in the header. The packet is then the first PACKET->n bytes of PACKET->bytes. */
void memtrace_packet_end(struct memtrace_packet *packet);

size_t memtrace_packet_room(const struct memtrace_packet *packet);

/*
 * Begin an event at the time US, which must not be before the last event. For this and the
 * following functions, the caller must make sure that the packet has enough space.
 */
void memtrace_put_event(struct memtrace_packet *packet, unsigned int kind, uint64_t us);
/* Append the low BYTES bytes of VALUE. */
void memtrace_put(struct memtrace_packet *packet, uint64_t value, size_t bytes);
/* Append VALUE in a form that is short for small numbers. */
void memtrace_put_varying(struct memtrace_packet *packet, uint64_t value);
/*
 * Append the first BYTES bytes of TEXT, none of which may be 0, and then END with its terminating
 * 0.
 */
void memtrace_put_text(struct memtrace_packet *packet, const char *text, size_t bytes,
		       const char *end);

#endif

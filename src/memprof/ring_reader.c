// SPDX-License-Identifier: MIT
#include "memprof/ring_reader.h"

#include <string.h>

void ring_reader_init(struct ring_reader *r, struct memprof_ring *ring, uint64_t data)
{
	*r = (struct ring_reader){ .ring = ring, .data = data };
	ring->magic = MEMPROF_MAGIC;
	ring->data = data;
}

static uint64_t *record_at(const struct ring_reader *r)
{
	return (uint64_t *)((char *)r->ring + MEMPROF_RING_BYTES + (r->tail & (r->data - 1)));
}

/* Give the room of WORDS back. */
static void release(struct ring_reader *r, uint64_t words)
{
	memset(record_at(r), 0, words * sizeof(uint64_t));
	r->tail += words * sizeof(uint64_t);
	__atomic_store_n(&r->ring->tail, r->tail, __ATOMIC_RELEASE);
}

/* HEAD is that of a record that ends before END, in a place of ROOM words up to the end of the circle. */
static bool is_sound(uint64_t head, uint64_t written, uint64_t room)
{
	const unsigned int kind = memprof_kind(head);
	const uint64_t words = memprof_words(head);

	if (!words || words > room || words > written)
		return false;
	switch (kind) {
	case MEMPROF_PADDING:
		return words == room;
	case MEMPROF_ALLOC_MINOR:
	case MEMPROF_ALLOC_MAJOR:
		return words >= MEMPROF_STACK && words <= MEMPROF_STACK + MEMPROF_MAX_DEPTH;
	case MEMPROF_PROMOTE:
	case MEMPROF_DEALLOC_MINOR:
	case MEMPROF_DEALLOC_MAJOR:
		return words == MEMPROF_WORDS;
	default:
		return false;
	}
}

static bool decode(const uint64_t *record, uint64_t head, struct memprof_event *event)
{
	*event = (struct memprof_event){ .kind = (enum memprof_kind)memprof_kind(head),
					 .domain = memprof_domain(head),
					 .time_ns = record[MEMPROF_TIME],
					 .id = record[MEMPROF_ID],
					 .minors = (uint32_t)record[MEMPROF_COLLECTIONS],
					 .majors = (uint32_t)(record[MEMPROF_COLLECTIONS] >> 32) };
	if (event->kind > MEMPROF_ALLOC_MAJOR)
		return true;
	event->n_samples = record[MEMPROF_SAMPLES];
	event->size = record[MEMPROF_SIZE];
	event->source = (enum memprof_source)(record[MEMPROF_SOURCE] & 0xff);
	event->depth = (uint32_t)(record[MEMPROF_SOURCE] >> 8);
	event->stack = record + MEMPROF_STACK;
	/* The numbers are bounded so that sums of them do not overflow. */
	return event->depth == memprof_words(head) - MEMPROF_STACK &&
	       event->source <= MEMPROF_CUSTOM && event->size >> 48 == 0 && event->n_samples &&
	       event->n_samples <= event->size + 1;
}

bool ring_record_decode(const uint64_t *record, uint64_t words, struct memprof_event *event)
{
	return words && memprof_words(record[MEMPROF_HEAD]) == words &&
	       memprof_kind(record[MEMPROF_HEAD]) != MEMPROF_PADDING &&
	       is_sound(record[MEMPROF_HEAD], words, words) &&
	       decode(record, record[MEMPROF_HEAD], event);
}

bool ring_reader_next(struct ring_reader *r, struct memprof_event *event)
{
	while (!r->is_damaged) {
		const uint64_t written =
			__atomic_load_n(&r->ring->head, __ATOMIC_ACQUIRE) - r->tail;
		const uint64_t room = (r->data - (r->tail & (r->data - 1))) / sizeof(uint64_t);
		uint64_t *at = record_at(r);
		uint64_t head, words;

		if (!written)
			return false;
		head = written > r->data || written % sizeof(uint64_t)
			       ? 1
			       : __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (!head)
			return false;
		if (!is_sound(head, written / sizeof(uint64_t), room)) {
			r->is_damaged = true;
			return false;
		}
		words = memprof_words(head);
		if (memprof_kind(head) == MEMPROF_PADDING) {
			release(r, words);
			continue;
		}
		memcpy(r->record, at, words * sizeof(uint64_t));
		release(r, words);
		r->is_damaged = !decode(r->record, head, event);
		return !r->is_damaged;
	}
	return false;
}

bool ring_reader_has_rest(const struct ring_reader *r)
{
	return __atomic_load_n(&r->ring->head, __ATOMIC_ACQUIRE) != r->tail;
}

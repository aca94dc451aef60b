// SPDX-License-Identifier: MIT
#include "memprof/ring_reader.h"

#include <stdlib.h>
#include <string.h>

/* ---- records --------------------------------------------------------------------------------- */

/*
 * What the next record of a writer may omit: the fields of the writer's previous record, and the
 * stack of its previous allocation.
 */
struct ring_writer {
	uint64_t collections, time_ns;
	uint32_t domain;
	uint32_t depth; /* number of frames in `stack` */
	/*
	 * The call stack of the last allocation. It is at the end of the array, so its outermost
	 * frame is always the last element.
	 */
	uint64_t stack[MEMPROF_MAX_DEPTH];
};

void ring_reader_init(struct ring_reader *r, struct memprof_ring *ring, uint64_t data)
{
	memset(r, 0, sizeof(*r));
	r->ring = ring;
	r->data = data;
	ring->magic = MEMPROF_MAGIC;
	ring->data = data;
}

void ring_reader_use_ticks(struct ring_reader *r, struct tick_moment (*look)(void))
{
	r->in_ticks = true;
	event_clock_start(&r->clock, look);
}

void ring_reader_fini(struct ring_reader *r)
{
	for (size_t i = 0; i < MEMPROF_MAX_WRITERS; i++)
		free(r->writers[i]);
	memset(r, 0, sizeof(*r));
}

static uint64_t *record_at(const struct ring_reader *r)
{
	return (uint64_t *)((char *)r->ring + MEMPROF_RING_BYTES + (r->tail & (r->data - 1)));
}

/* Fill WORDS words of the ring with 0, and give their space back to the program. */
static void release(struct ring_reader *r, uint64_t words)
{
	memset(record_at(r), 0, words * sizeof(uint64_t));
	r->tail += words * sizeof(uint64_t);
	__atomic_store_n(&r->ring->tail, r->tail, __ATOMIC_RELEASE);
}

/* Return the number of words of a record with this HEAD, not counting frames. */
static uint64_t fixed_words(const struct memprof_head *head)
{
	const uint64_t context = head->flags & MEMPROF_HAS_CONTEXT ? MEMPROF_CONTEXT_WORDS : 0;

	if (head->kind <= MEMPROF_ALLOC_MAJOR)
		return MEMPROF_ALLOC_WORDS + context;
	return MEMPROF_LEAST_WORDS + context + (head->flags & MEMPROF_HAS_TIME ? 1 : 0);
}

/*
 * Return true if HEAD can be the head of a valid record. From the start of the record, WRITTEN
 * words have been written, and ROOM words are left up to the end of the circular buffer.
 */
static bool is_sound(const struct memprof_head *head, uint64_t written, uint64_t room)
{
	const uint64_t fixed = fixed_words(head);

	if (!head->words || head->words > room || head->words > written)
		return false;
	if (head->kind == MEMPROF_PADDING)
		return head->words == room;
	if (head->kind >= MEMPROF_KINDS || head->words < fixed ||
	    head->writer >= MEMPROF_MAX_WRITERS)
		return false;
	if (head->kind > MEMPROF_ALLOC_MAJOR)
		return head->words == fixed;
	return head->flags & MEMPROF_HAS_TIME &&
	       head->words - fixed + head->kept <= MEMPROF_MAX_DEPTH;
}

/*
 * Return the state of the writer that HEAD names. Return NULL if memory is short, or if this is the
 * first record of the writer and omits fields.
 */
static struct ring_writer *writer_of(struct ring_reader *r, const struct memprof_head *head)
{
	const unsigned int all = MEMPROF_HAS_CONTEXT | MEMPROF_HAS_TIME;
	struct ring_writer **writer = &r->writers[head->writer];

	if (!*writer && (head->flags & all) == all)
		*writer = calloc(1, sizeof(**writer));
	return *writer;
}

bool memprof_event_is_sound(const struct memprof_event *event)
{
	return event->size >> 48 == 0 && event->n_samples && event->n_samples <= event->size + 1;
}

/*
 * Decode the rest of an allocation's record, which is at AT. FRESH is the number of frames that the
 * record contains.
 */
static bool decode_allocation(struct ring_writer *writer, const struct memprof_head *head,
			      const uint64_t *at, uint64_t fresh, struct memprof_event *event)
{
	if (head->kept > writer->depth)
		return false;
	event->n_samples = at[0];
	event->size = at[1] & ((UINT64_C(1) << MEMPROF_SOURCE_SHIFT) - 1);
	event->source = (uint8_t)(at[1] >> MEMPROF_SOURCE_SHIFT);
	event->depth = writer->depth = (uint32_t)fresh + head->kept;
	event->stack = writer->stack + MEMPROF_MAX_DEPTH - event->depth;
	memcpy(writer->stack + MEMPROF_MAX_DEPTH - event->depth, at + 2, fresh * sizeof(*at));
	return memprof_event_is_sound(event);
}

/*
 * Set WRITER->time_ns to TIME, converted to nanoseconds, but never to an earlier time than before.
 */
static void set_time(struct ring_reader *r, struct ring_writer *writer, uint64_t time)
{
	const uint64_t ns = r->in_ticks ? event_clock_ns(&r->clock, time) : time;

	if (ns > writer->time_ns)
		writer->time_ns = ns;
}

/*
 * Decode the copy of a record, after is_sound() has accepted its HEAD. Return false if the rest of
 * the record is not sound, or if out of memory.
 */
static bool decode_ring_record(struct ring_reader *r, const struct memprof_head *head,
			       struct memprof_event *event)
{
	struct ring_writer *writer = writer_of(r, head);
	const uint64_t *at = r->record + MEMPROF_LEAST_WORDS;

	if (!writer)
		return false;
	if (head->flags & MEMPROF_HAS_CONTEXT) {
		writer->collections = at[0];
		writer->domain = (uint32_t)at[1];
		at += MEMPROF_CONTEXT_WORDS;
	}
	if (head->flags & MEMPROF_HAS_TIME)
		set_time(r, writer, *at++);
	*event = (struct memprof_event){ .kind = (enum memprof_kind)head->kind,
					 .domain = writer->domain,
					 .time_ns = writer->time_ns,
					 .id = r->record[1],
					 .minors = (uint32_t)writer->collections,
					 .majors = (uint32_t)(writer->collections >> 32) };
	return head->kind > MEMPROF_ALLOC_MAJOR ||
	       decode_allocation(writer, head, at, head->words - fixed_words(head), event);
}

/*
 * Return how many bytes of records are known to have been written but not read. Read ring->head
 * only when all known records have been read, because each access takes the cache line away from
 * the program's processor.
 */
static uint64_t bytes_written(struct ring_reader *r)
{
	if (r->head == r->tail && !r->is_last)
		r->head = __atomic_load_n(&r->ring->head, __ATOMIC_ACQUIRE);
	return r->head - r->tail;
}

static bool next(struct ring_reader *r, struct memprof_event *event)
{
	while (!r->is_damaged) {
		const uint64_t written = bytes_written(r);
		const uint64_t room = (r->data - (r->tail & (r->data - 1))) / sizeof(uint64_t);
		uint64_t *at = record_at(r);
		struct memprof_head head;
		uint64_t word;

		if (!written)
			return false;
		r->is_damaged = written > r->data || written % sizeof(uint64_t);
		word = r->is_damaged ? 0 : __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (!word)
			return false;
		head = memprof_unpack(word);
		r->is_damaged = !is_sound(&head, written / sizeof(uint64_t), room);
		if (r->is_damaged)
			return false;
		if (head.kind != MEMPROF_PADDING)
			memcpy(r->record, at, head.words * sizeof(uint64_t));
		release(r, head.words);
		if (head.kind == MEMPROF_PADDING)
			continue;
		r->is_damaged = !decode_ring_record(r, &head, event);
		return !r->is_damaged;
	}
	return false;
}

bool ring_reader_next(struct ring_reader *r, struct memprof_event *event)
{
	if (next(r, event))
		return true;
	if (r->in_ticks)
		event_clock_look(&r->clock);
	return false;
}

void ring_reader_finish(struct ring_reader *r)
{
	r->head = __atomic_load_n(&r->ring->head, __ATOMIC_ACQUIRE);
	r->is_last = true;
}

bool ring_reader_has_rest(const struct ring_reader *r)
{
	return __atomic_load_n(&r->ring->head, __ATOMIC_ACQUIRE) != r->tail;
}

/* SPDX-License-Identifier: MIT */
/*
 * Reads the records in the ring of a session (see ring.h), and decodes them to events. The program
 * can write anything into the ring at any time, so each word is read only once.
 */
#ifndef MEMPROF_RING_READER_H
#define MEMPROF_RING_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/event_clock.h"
#include "memprof/ring.h"
#include "memprof/session.h"

struct ring_writer;

struct ring_reader {
	struct memprof_ring *ring;
	uint64_t data; /* size of the circular buffer in bytes */
	/* `head`: the value most recently read from ring->head */
	uint64_t head, tail;
	uint64_t record[MEMPROF_MOST_WORDS]; /* a copy of the last record */
	/* State of each writer; NULL: no record yet. */
	struct ring_writer *writers[MEMPROF_MAX_WRITERS];
	struct event_clock clock; /* for times in ticks */
	bool in_ticks;
	bool is_last; /* records after `head` will not be read */
	bool is_damaged;
};

/* Prepare READER and RING for DATA bytes of records. RING must be all 0. */
void ring_reader_init(struct ring_reader *reader, struct memprof_ring *ring, uint64_t data);
/*
 * Declare that the times in records are ticks of the time stamp counter. LOOK: see
 * event_clock_start().
 */
void ring_reader_use_ticks(struct ring_reader *reader, struct tick_moment (*look)(void));
/* Free the memory of READER, which may be all 0. The caller frees the ring. */
void ring_reader_fini(struct ring_reader *reader);

/*
 * Read the next EVENT. Return false if no complete record is waiting, or if the ring is damaged.
 * The event's call stack is valid until the next call.
 */
bool ring_reader_next(struct ring_reader *reader, struct memprof_event *event);

/* From now on, read only the records that are in the ring at this moment. */
void ring_reader_finish(struct ring_reader *reader);

/* Return true if the ring has bytes that were not read. */
bool ring_reader_has_rest(const struct ring_reader *reader);

/*
 * EVENT must be an allocation. Return true if its numbers are so small that sums of such numbers
 * cannot overflow.
 */
bool memprof_event_is_sound(const struct memprof_event *event);

#endif

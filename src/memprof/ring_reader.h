/* SPDX-License-Identifier: MIT */
/* Reads a ring of ring.h. The program can write anything there, at any time: each word is read once. */
#ifndef MEMPROF_RING_READER_H
#define MEMPROF_RING_READER_H

#include <stdbool.h>
#include <stdint.h>
#include "memprof/event_clock.h"
#include "memprof/ring.h"
#include "memprof/session.h"

struct ring_writer;

struct ring_reader {
	struct memprof_ring *ring;
	uint64_t data;					  /* bytes of records */
	uint64_t head, tail;				  /* the head as it was at some time */
	uint64_t record[MEMPROF_MOST_WORDS];		  /* a copy of the last one */
	struct ring_writer *writers[MEMPROF_MAX_WRITERS]; /* what each has said; NULL: nothing */
	struct event_clock clock;			  /* for times in ticks */
	bool in_ticks;
	bool is_last; /* no record after HEAD is read */
	bool is_damaged;
};

/* Make RING, which is all 0, ready for DATA bytes of records. */
void ring_reader_init(struct ring_reader *reader, struct memprof_ring *ring, uint64_t data);
/* The times of the records will be ticks of the time stamp counter. LOOK: see event_clock.h. */
void ring_reader_use_ticks(struct ring_reader *reader, struct tick_moment (*look)(void));
/* Free what READER has; the ring is the caller's. It may be all 0. */
void ring_reader_fini(struct ring_reader *reader);

/* False: there is no whole record, or the ring is damaged. The call stack is there until the next call. */
bool ring_reader_next(struct ring_reader *reader, struct memprof_event *event);

/* From now on, read only the records that the ring has at this moment. */
void ring_reader_finish(struct ring_reader *reader);

/* Is there something that is no whole record? */
bool ring_reader_has_rest(const struct ring_reader *reader);

/* The source that OCaml has given NUMBER. */
enum memprof_source memprof_source_of(uint64_t number);

/* Are the numbers of an allocation bounded, so that sums of them do not overflow? */
bool memprof_event_is_sound(const struct memprof_event *event);

#endif

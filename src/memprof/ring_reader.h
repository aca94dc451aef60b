/* SPDX-License-Identifier: MIT */
/*
 * Reads a ring of ring.h. The program can write anything there at any time, so each word is read
 * once.
 */
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
	uint64_t head, tail;				  /* HEAD: as last read from the ring */
	uint64_t record[MEMPROF_MOST_WORDS];		  /* a copy of the last record */
	struct ring_writer *writers[MEMPROF_MAX_WRITERS]; /* state of each; NULL: no record yet */
	struct event_clock clock;			  /* for times in ticks */
	bool in_ticks;
	bool is_last; /* no record after HEAD is read */
	bool is_damaged;
};

/* Prepare RING, which is all 0, for DATA bytes of records. */
void ring_reader_init(struct ring_reader *reader, struct memprof_ring *ring, uint64_t data);
/* Declare that times of records are ticks of the time stamp counter. LOOK: see event_clock.h. */
void ring_reader_use_ticks(struct ring_reader *reader, struct tick_moment (*look)(void));
/* Free the memory of READER, which may be all 0. The caller frees the ring. */
void ring_reader_fini(struct ring_reader *reader);

/*
 * Read the next EVENT. Returns false if there is no complete record, or if the ring is damaged. The
 * call stack is valid until the next call.
 */
bool ring_reader_next(struct ring_reader *reader, struct memprof_event *event);

/* From now on, read only the records that are in the ring now. */
void ring_reader_finish(struct ring_reader *reader);

/* Does the ring have bytes that were not read? */
bool ring_reader_has_rest(const struct ring_reader *reader);

/* Return the source for OCaml's NUMBER, or MEMPROF_OTHER if it is unknown. */
enum memprof_source memprof_source_of(uint64_t number);

/* Are the numbers of an allocation bounded, so that sums of them do not overflow? */
bool memprof_event_is_sound(const struct memprof_event *event);

#endif

/* SPDX-License-Identifier: MIT */
/* Reads a ring of ring.h. The program can write anything there, at any time: each word is read once. */
#ifndef MEMPROF_RING_READER_H
#define MEMPROF_RING_READER_H

#include <stdbool.h>
#include <stdint.h>
#include "memprof/ring.h"
#include "memprof/session.h"

struct ring_reader {
	struct memprof_ring *ring;
	uint64_t data; /* bytes of records */
	uint64_t tail;
	uint64_t record[MEMPROF_STACK + MEMPROF_MAX_DEPTH]; /* a copy of the last one */
	bool is_damaged;
};

/* Make RING, which is all 0, ready for DATA bytes of records. */
void ring_reader_init(struct ring_reader *reader, struct memprof_ring *ring, uint64_t data);

/*
 * Is RECORD, which has WORDS words, sound? Then EVENT is what it says, with its call stack. Others than those
 * of the ring have the same form.
 */
bool ring_record_decode(const uint64_t *record, uint64_t words, struct memprof_event *event);

/* False: there is no whole record, or the ring is damaged. */
bool ring_reader_next(struct ring_reader *reader, struct memprof_event *event);

/* Is there something that is no whole record? */
bool ring_reader_has_rest(const struct ring_reader *reader);

#endif

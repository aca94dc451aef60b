/* SPDX-License-Identifier: MIT */
/*
 * Rings of events in a block: a hit of a site writes a record with its time, without a system call.
 *
 *	struct rings_shared
 *	n_rings times: struct event_ring, ring_slots slots, one more slot
 *
 * A thread writes to the ring at the number of its CPU modulo n_rings. The number is a hint only: a
 * thread that is moved to another CPU still writes to the ring that it has chosen. If the C library
 * does not store the number of the CPU, the trampoline uses the thread's id instead.
 *
 * Positions in a ring count records from the attach on. A writer takes a position by one locked
 * addition to `head`, fills in the slot at this position modulo ring_slots, and writes `sequence`,
 * the position plus 1, last. So a slot is whole if it has the sequence of its position. A writer
 * never waits: it takes no position, and counts a loss, if less than RINGS_SPARE slots are free.
 * The check and the addition are two instructions. So RINGS_SPARE threads may take a position at
 * the same moment. More of them would overwrite records, which a reader notices, since `head` is
 * then more than ring_slots ahead of `tail`.
 *
 * Only the tool that made the block reads the records and advances `tail`: all records before it
 * were read. A record that is lost is written to the slot behind the last one, so that the code
 * needs no branch.
 */
#ifndef CHANGE_INSIDE_RINGS_H
#define CHANGE_INSIDE_RINGS_H

#include <stdint.h>
#include "change/inside/block.h"

enum {
	RINGS_MAX = 64,
	RINGS_SPARE = 1024,
	RINGS_MIN_SLOTS = 4096,
	RINGS_MAX_SLOTS = 1 << 24,
};

struct rings_shared {
	/* as in struct pairs_shared; only the code of the trampolines uses it */
	uint64_t stack_page;
	/* hits that wrote no record, because the stack of the thread had no room for that */
	uint64_t without_stack;
	uint64_t unused[6];
};

struct event_ring {
	uint64_t head; /* the number of positions that were taken */
	uint64_t lost; /* hits without a position, because the ring was full */
	uint64_t unused[6];
	uint64_t tail;
	uint64_t unused_too[7];
};

struct event_slot {
	uint64_t sequence;
	uint64_t ticks; /* the value of the time stamp counter */
	uint32_t tid;
	uint32_t point; /* inside_event.point of the site */
	/* the frame plus 1: see INSIDE_FRAME and INSIDE_FIBER_FRAME in inside.h */
	uint64_t frame;
	uint64_t args[]; /* as many as slot_bytes has room for */
};

/* Return the size of a slot for records with N_ARGS arguments. */
static inline uint32_t rings_slot_bytes(uint32_t n_args)
{
	return ((uint32_t)sizeof(struct event_slot) + 8 * n_args + 15) / 16 * 16;
}

/* Return the distance from a ring to the next one: whole cache lines. */
static inline uint64_t rings_stride(const struct block_header *header)
{
	const uint64_t slots = header->ring_slots + UINT64_C(1);

	return sizeof(struct event_ring) + (slots * header->slot_bytes + 63) / 64 * 64;
}

/* Return the size of all rings. */
static inline uint64_t rings_bytes(const struct block_header *header)
{
	return header->n_rings
		       ? sizeof(struct rings_shared) + header->n_rings * rings_stride(header)
		       : 0;
}

#endif

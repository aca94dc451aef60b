/* SPDX-License-Identifier: MIT */
/*
 * The books of a profile: what was allocated where, which of the sampled blocks are alive, and how long
 * the others lived. Made from events; nothing has a name yet.
 */
#ifndef MEMPROF_HEAP_H
#define MEMPROF_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "memprof/session.h"

/* Major collections that ended while a block was alive: 0, 1, 2, 3-4, 5-8, 9-16, 17-32, more. */
enum { LIFE_CLASSES = 8 };

/* What belongs to one call stack. Samples estimate words: one for each 1 / rate of them. */
struct heap_stack {
	const uint64_t *frames; /* as in struct memprof_event */
	uint32_t depth;
	uint64_t samples, live_samples; /* allocated, and of blocks that are alive */
	uint64_t blocks, live_blocks;	/* sampled ones */
	/* Samples / words of the block: times 1 / rate, the number of blocks. */
	double objects, live_objects;
	uint64_t major_samples; /* allocated in the major heap */
	uint64_t promoted_samples;
	uint64_t minor_deaths;		     /* samples that never came to the major heap */
	uint64_t major_deaths[LIFE_CLASSES]; /* samples */
	double life_ns;			     /* of the dead, times their samples */
};

/* Limits: the program chooses how many blocks and call stacks there are. */
enum {
	HEAP_BLOCKS = 1 << 19, /* that are alive and followed: some 100 bytes each */
	HEAP_STACKS = 1 << 16, /* different call stacks */
	HEAP_FRAMES = 1 << 22, /* of all these stacks */
};

struct heap;

int heap_new(struct ocp_ctx *ctx, struct heap **out);
void heap_free(struct heap *heap);

/*
 * Set other limits than the above. STACKS is at least 1. What exceeds the limits is counted in struct
 * heap_totals.
 */
void heap_limit(struct heap *heap, size_t blocks, size_t stacks, size_t frames);

/* Enter EVENT. *STACK is the number of the call stack of its block; SIZE_MAX: the block is not known. */
int heap_enter(struct heap *heap, const struct memprof_event *event, size_t *stack);

/*
 * The number of the block of the event that was entered last: blocks are counted from 0 as they are
 * allocated. UINT64_MAX: the block is not known, or what the event says cannot have happened to it.
 */
uint64_t heap_block_number(const struct heap *heap);

/* The call stacks, by their numbers. */
const struct heap_stack *heap_stacks(const struct heap *heap, size_t *n);

/* The numbers of all call stacks at a moment, by their numbers; no frames. */
struct heap_mark {
	struct heap_stack *stacks;
	size_t n;
};

int heap_mark(const struct heap *heap, struct heap_mark *mark);
void heap_mark_free(struct heap_mark *mark);

struct heap_totals {
	uint64_t samples, live_samples, blocks, live_blocks;
	uint64_t unknown;  /* events of blocks that are not known */
	uint64_t left_out; /* blocks above the limit, which are not followed */
	uint64_t
		other_stacks; /* blocks whose call stack is above the limit: they have an empty one */
};

struct heap_totals heap_totals(const struct heap *heap);

#endif

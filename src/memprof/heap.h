/* SPDX-License-Identifier: MIT */
/*
 * The accounts of a profile, made from its events: how much was allocated where, which of the
 * sampled blocks are alive, and how long the others lived. Frames are addresses; heap_sites.h names
 * them.
 */
#ifndef MEMPROF_HEAP_H
#define MEMPROF_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "memprof/session.h"

/* Major collections that ended while a block was alive: 0, 1, 2, 3-4, 5-8, 9-16, 17-32, more. */
enum { LIFE_CLASSES = 8 };

/* The account of one call stack. Each sample stands for 1 / rate words. */
struct heap_stack {
	const uint64_t *frames; /* as in struct memprof_event */
	uint32_t depth;
	uint64_t samples, live_samples; /* of all blocks; of blocks that are alive */
	uint64_t blocks, live_blocks;	/* sampled blocks */
	/*
	 * Sum over the blocks of samples / words with header. Divided by the rate: the estimated
	 * number of blocks.
	 */
	double objects, live_objects;
	uint64_t major_samples; /* allocated in the major heap */
	uint64_t promoted_samples;
	uint64_t minor_deaths;		     /* samples of blocks that died in the minor heap */
	uint64_t major_deaths[LIFE_CLASSES]; /* samples */
	double life_ns;			     /* sum of lifetime * samples over dead blocks */
};

/* Limits, since the program determines the number of blocks and call stacks. */
enum {
	HEAP_BLOCKS = 1 << 19, /* live blocks that are followed; some 100 bytes each */
	HEAP_STACKS = 1 << 16, /* different call stacks */
	HEAP_FRAMES = 1 << 22, /* of all call stacks together */
};

struct heap;

int heap_new(struct ocp_ctx *ctx, struct heap **out);
void heap_free(struct heap *heap);

/*
 * Replace the limits above. STACKS is at least 1. Blocks and stacks beyond the limits are counted
 * in struct heap_totals.
 */
void heap_limit(struct heap *heap, size_t blocks, size_t stacks, size_t frames);

/*
 * Enter EVENT into the accounts. Set *STACK to the number of the call stack of its block, or to
 * SIZE_MAX if the block is not known.
 */
int heap_enter(struct heap *heap, const struct memprof_event *event, size_t *stack);

/*
 * Return the number of the block of the last event entered. Blocks are numbered from 0 in the order
 * of their allocation. Returns UINT64_MAX if the block is not known, or if the event cannot have
 * happened to it.
 */
uint64_t heap_block_number(const struct heap *heap);

/* Return the call stacks, indexed by their numbers. */
const struct heap_stack *heap_stacks(const struct heap *heap, size_t *n);

/* A snapshot of the accounts of all call stacks, indexed by their numbers, without frames. */
struct heap_mark {
	struct heap_stack *stacks;
	size_t n;
};

int heap_mark(const struct heap *heap, struct heap_mark *mark);
void heap_mark_free(struct heap_mark *mark);

struct heap_totals {
	uint64_t samples, live_samples, blocks, live_blocks;
	uint64_t unknown;      /* events of blocks that are not known */
	uint64_t left_out;     /* blocks beyond the limit, which are not followed */
	uint64_t other_stacks; /* blocks with an empty call stack, due to the limits */
};

struct heap_totals heap_totals(const struct heap *heap);

#endif

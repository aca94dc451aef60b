/* SPDX-License-Identifier: MIT */
/*
 * The statistics of a profile, computed from its events: how much each call stack has allocated,
 * which of the sampled blocks are alive, and how long the dead ones lived. Frames are addresses;
 * heap_sites.h converts them to names.
 */
#ifndef MEMPROF_HEAP_H
#define MEMPROF_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "memprof/session.h"

/*
 * Classes of lifetimes, by the number of major collections that ended while a block was alive: 0,
 * 1, 2, 3-4, 5-8, 9-16, 17-32, more.
 */
enum { LIFE_CLASSES = 8 };

/* The statistics of one call stack. Each sample stands for 1 / rate words. */
struct heap_stack {
	const uint64_t *frames; /* as in struct memprof_event */
	uint32_t depth;
	/* samples of all blocks; samples of the blocks that are alive */
	uint64_t samples, live_samples;
	/* the number of sampled blocks; of these, how many are alive */
	uint64_t blocks, live_blocks;
	/*
	 * Each block adds its number of samples divided by its number of words, including the
	 * header. The sum, divided by the rate, is the estimated number of blocks.
	 */
	double objects, live_objects;
	uint64_t major_samples; /* samples of blocks that were allocated in the major heap */
	uint64_t promoted_samples;
	uint64_t minor_deaths; /* samples of blocks that died in the minor heap */
	/* Samples of blocks that died in the major heap, by class of their lifetime. */
	uint64_t major_deaths[LIFE_CLASSES];
	double life_ns; /* sum over all dead blocks: lifetime of the block * samples of the block */
};

/* Limits, since the program determines the number of blocks and call stacks. */
enum {
	/* maximum number of live blocks that are recorded, some 100 bytes each */
	HEAP_BLOCKS = 1 << 19,
	HEAP_STACKS = 1 << 16, /* maximum number of different call stacks */
	HEAP_FRAMES = 1 << 22, /* maximum number of frames in all call stacks together */
};

struct heap;

int heap_new(struct ocp_ctx *ctx, struct heap **out);
void heap_free(struct heap *heap);

/*
 * Replace the limits above. STACKS must be at least 1. Blocks and stacks beyond the limits are
 * counted in struct heap_totals.
 */
void heap_limit(struct heap *heap, size_t blocks, size_t stacks, size_t frames);

/*
 * Add EVENT to the statistics. Set *STACK to the number of the call stack of the event's block, or
 * to SIZE_MAX if the block is not known.
 */
int heap_enter(struct heap *heap, const struct memprof_event *event, size_t *stack);

/*
 * Return the number of the block to which the event of the most recent heap_enter() happened.
 * Blocks are numbered from 0 in the order of their allocation. Return UINT64_MAX if the block is
 * not known, or if the event cannot have happened to it.
 */
uint64_t heap_block_number(const struct heap *heap);

/* Return the call stacks, indexed by their numbers. */
const struct heap_stack *heap_stacks(const struct heap *heap, size_t *n);

/* A snapshot of the statistics of all call stacks, indexed by their numbers, without frames. */
struct heap_mark {
	struct heap_stack *stacks;
	size_t n;
};

int heap_mark(const struct heap *heap, struct heap_mark *mark);
void heap_mark_free(struct heap_mark *mark);

struct heap_totals {
	uint64_t samples, live_samples, blocks, live_blocks;
	uint64_t live_minor_samples; /* samples of the live blocks that are in the minor heap */
	uint64_t unknown;	     /* events of blocks that are not known */
	/*
	 * blocks that were not recorded because of the limit; later events of these count as
	 * unknown
	 */
	uint64_t left_out;
	/* Blocks that were given an empty call stack because of the limits. */
	uint64_t other_stacks;
};

struct heap_totals heap_totals(const struct heap *heap);

#endif

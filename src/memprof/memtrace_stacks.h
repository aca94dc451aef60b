/* SPDX-License-Identifier: MIT */
/*
 * The call stacks of a memtrace file. A code, from 1, stands for each frame. A stack, the outermost
 * frame first, is written as the number of frames in common with the previous stack, and words for
 * the rest. Writer and reader keep the same cache: each bucket has a code, and the bucket that last
 * came after it.
 */
#ifndef MEMPROF_MEMTRACE_STACKS_H
#define MEMPROF_MEMTRACE_STACKS_H

#include "base/ctx.h"
#include "memprof/memtrace_packet.h"
#include "memprof/ring.h"

enum {
	/* Frames of a stack. The frame that stands for an empty stack counts. */
	MEMTRACE_MAX_DEPTH = MEMPROF_MAX_DEPTH,
	/* The most bytes of a frame. */
	MEMTRACE_FRAME_BYTES = 10,
};

struct memtrace_stacks;

int memtrace_stacks_new(struct ocp_ctx *ctx, struct memtrace_stacks **out);
void memtrace_stacks_free(struct memtrace_stacks *stacks);

/* Return how many of CODES[0..N), from the first on, are the same in the previous stack. */
uint32_t memtrace_stacks_common(const struct memtrace_stacks *stacks, const uint32_t *codes,
				uint32_t n);

/*
 * Write the stack CODES[0..N), whose first COMMON frames are those of the previous stack: COMMON as
 * a varying number, the number of words in COUNT_BYTES bytes, and the words, at most one for each
 * frame. Codes need not be dense, but memory is allocated up to the largest one.
 */
int memtrace_stacks_put(struct memtrace_stacks *stacks, struct memtrace_packet *packet,
			const uint32_t *codes, uint32_t n, uint32_t common, size_t count_bytes);

/* Return a cache entry for the reader to compare: another bucket in each call. */
struct memtrace_check memtrace_stacks_check(struct memtrace_stacks *stacks);

#endif

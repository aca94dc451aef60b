/* SPDX-License-Identifier: MIT */
/*
 * How a memtrace file has call stacks. A code, from 1, stands for each frame. A stack, the outermost frame
 * first, is what it has in common with the stack before, and words for the rest. Writer and reader keep
 * the same cache: its buckets hold codes, and each knows the bucket that came after it last.
 */
#ifndef MEMPROF_MEMTRACE_STACKS_H
#define MEMPROF_MEMTRACE_STACKS_H

#include "base/ctx.h"
#include "memprof/memtrace_packet.h"
#include "memprof/ring.h"

enum {
	/* Frames of a stack: what stands for the lack of any is one, too. */
	MEMTRACE_MAX_DEPTH = MEMPROF_MAX_DEPTH,
	/* The most bytes of a frame. */
	MEMTRACE_FRAME_BYTES = 10,
};

struct memtrace_stacks;

int memtrace_stacks_new(struct ocp_ctx *ctx, struct memtrace_stacks **out);
void memtrace_stacks_free(struct memtrace_stacks *stacks);

/* How many of CODES[0..N) are the same in the stack before? */
uint32_t memtrace_stacks_common(const struct memtrace_stacks *stacks, const uint32_t *codes,
				uint32_t n);

/*
 * Write the stack CODES[0..N), whose first COMMON frames are those of the stack before: a varying number
 * for these, a number of words in COUNT_BYTES bytes, and the words, of which there are no more than
 * frames. Codes need not be dense, but memory is taken for the largest one.
 */
int memtrace_stacks_put(struct memtrace_stacks *stacks, struct memtrace_packet *packet,
			const uint32_t *codes, uint32_t n, uint32_t common, size_t count_bytes);

/* What a reader shall compare: another bucket each time. */
struct memtrace_check memtrace_stacks_check(struct memtrace_stacks *stacks);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Writes the call stacks of a memtrace file. Each frame is represented by a code, from 1. A stack,
 * outermost frame first, is written as the number of frames that it shares with the previous stack,
 * followed by words for the other frames. A word names a bucket of a cache that writer and reader
 * keep in step. A bucket holds a code, and the number of the bucket that came next the last time
 * this bucket was used. So one word can stand for several frames. memtrace_stacks.c describes the
 * words.
 */
#ifndef MEMPROF_MEMTRACE_STACKS_H
#define MEMPROF_MEMTRACE_STACKS_H

#include "base/ctx.h"
#include "memprof/memtrace_packet.h"
#include "memprof/ring.h"

enum {
	/* The most frames of a stack. The frame that stands for an empty stack counts, too. */
	MEMTRACE_MAX_DEPTH = MEMPROF_MAX_DEPTH,
	/* The most bytes that a frame takes. */
	MEMTRACE_FRAME_BYTES = 10,
};

struct memtrace_stacks;

int memtrace_stacks_new(struct ocp_ctx *ctx, struct memtrace_stacks **out);
void memtrace_stacks_free(struct memtrace_stacks *stacks);

/* Return the length of the longest common prefix of CODES[0..N) and the previous stack. */
uint32_t memtrace_stacks_common(const struct memtrace_stacks *stacks, const uint32_t *codes,
				uint32_t n);

/*
 * Write the stack CODES[0..N), whose first COMMON frames are the same as in the previous stack:
 * write COMMON as a varying number, the number of words in COUNT_BYTES bytes, and the words, at
 * most one for each frame. Codes may have gaps, but memory is allocated up to the largest code.
 */
int memtrace_stacks_put(struct memtrace_stacks *stacks, struct memtrace_packet *packet,
			const uint32_t *codes, uint32_t n, uint32_t common, size_t count_bytes);

/* Return a cache entry for the reader to check. Each call selects another bucket. */
struct memtrace_check memtrace_stacks_check(struct memtrace_stacks *stacks);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The layout of the maps of object measure_stacks, in addition to the maps of measure.h and
 * stacks.h. The includer provides the __u32 and __u64 types.
 *
 *	map           type           key                       value
 *	stack_counts  hash           struct measure_stack_key  struct measure_stack_count
 *	walk_costs    per-CPU array  0                         struct measure_walk_costs
 *	prints        ring buffer                              struct measure_stack_record
 */
#ifndef MEASURE_STACK_MAPS_H
#define MEASURE_STACK_MAPS_H

#include "args.h"
#include "stacks.h"

enum { MEASURE_MAX_STACK_COUNTS = 1 << 15 };

/*
 * A bit of measure_stack_key.what. If this bit is set, the other bits are the number of a pair,
 * otherwise the number of a probe.
 */
enum { MEASURE_STACK_PAIR = 1 << 30 };

/* As measure_stack_key.stack, this value stands for all stacks that could not be stored. */
#define MEASURE_STACK_LOST 0ULL

struct measure_stack_key {
	__u64 stack;
	__u32 what;
	__u32 reserved;
};

/* The hits of a probe with one stack, or the durations of the pairs that ended with one stack. */
struct measure_stack_count {
	__u64 n;
	__u64 sum_ns;
	__u64 max_ns;
};

struct measure_walk_costs {
	__u64 walks;
	__u64 ns;	   /* the sum of the times that the walks took */
	__u64 counts_full; /* not a cost: hits and durations for which stack_counts had no room */
	/*
	 * Not a cost either: calls that were not counted, because it is unknown whether they are
	 * outermost.
	 */
	__u64 unknown_calls;
};

/* A printed hit with its stack. config.stack_depth limits the number of frames. */
struct measure_stack_record {
	struct hit_record hit;
	__u32 end; /* enum walk_end */
	__u32 n;   /* the number of frames */
	__u64 frames[];
};

static inline __attribute__((always_inline)) __u32 measure_stack_record_bytes(__u32 depth)
{
	return (__u32)sizeof(struct measure_stack_record) + depth * (__u32)sizeof(__u64);
}

#endif

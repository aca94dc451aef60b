/* SPDX-License-Identifier: MIT */
/*
 * What counting inside costs on this machine, measured in our own process on two sites, or on a
 * window.
 */
#ifndef CHANGE_INSIDE_OWN_COST_H
#define CHANGE_INSIDE_OWN_COST_H

#include "base/ctx.h"

enum own_cost_of {
	OWN_COST_COUNTING,
	OWN_COST_COUNTING_WINDOWS,
	OWN_COST_GROUPING, /* counting by the value of an argument */
	OWN_COST_TIMING,
	OWN_COST_TIMING_BY_KEY,
	OWN_COST_TIMING_GROUPS, /* timing by the value of an argument */
	OWN_COST_TIMING_GROUPS_BY_KEY,
	OWN_COST_RECORDING,	 /* writing an event without arguments */
	OWN_COST_RECORDING_ARGS, /* ... with two arguments */
};

struct own_cost {
	/* The time that a hit takes. When timing: the mean of the times of a start and a stop. */
	double hit_ns;
	/*
	 * The duration that is measured for a pair with no work between start and stop. 0 when
	 * counting.
	 */
	double empty_pair_ns;
};

/*
 * Measure the cost. This takes about 1 ms and, when timing, 20 ms more if the kernel does not
 * report the rate of the time stamp counter. The calling thread runs the same trampolines as a
 * process that is counted; DEPTH is as in inside_spec. The hits match a filter of N_COMPARISONS
 * comparisons, if that is not 0; when timing, only starts have the filter. Returns 0, or a negative
 * errno with a message, e.g. -ENOTSUP, or -ENOMEM if this process cannot map executable memory.
 */
int own_cost_measure(struct ocp_ctx *ctx, enum own_cost_of of, unsigned int depth,
		     size_t n_comparisons, struct own_cost *cost);

#endif

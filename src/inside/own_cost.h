/* SPDX-License-Identifier: MIT */
/* What counting inside costs on this machine, measured on two sites of our own process. */
#ifndef INSIDE_OWN_COST_H
#define INSIDE_OWN_COST_H

#include "base/ctx.h"

enum own_cost_of { OWN_COST_COUNTING, OWN_COST_TIMING, OWN_COST_TIMING_BY_KEY };

struct own_cost {
	double hit_ns; /* what a hit takes from the thread; when timing, half a start and a stop */
	double empty_pair_ns; /* what a pair without anything between reads as; 0 when counting */
};

/*
 * Takes about a millisecond, and 20 more when timing if the kernel does not tell the rate of the time stamp
 * counter. The calling thread runs the trampolines that a process would get: DEPTH as in inside_spec.
 * Returns 0, or a negative errno with a message: -ENOTSUP, or if this process cannot map code.
 */
int own_cost_measure(struct ocp_ctx *ctx, enum own_cost_of of, unsigned int depth,
		     struct own_cost *cost);

#endif

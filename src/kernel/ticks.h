/* SPDX-License-Identifier: MIT */
/* The time stamp counter of the processor as a clock. */
#ifndef KERNEL_TICKS_H
#define KERNEL_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"

/* Return true if the counter runs at a constant rate, never stops, and agrees on all CPUs. */
bool ticks_are_clock(void);

/*
 * Set *NS_PER_TICK to the nanoseconds per tick as a 32.32 fixed-point number: from the kernel, or
 * measured in 20 ms. Returns 0, or -ENOTSUP with a message if the counter is not usable as a clock.
 */
int ticks_ns_per_tick(struct ocp_ctx *ctx, uint64_t *ns_per_tick);

/*
 * Return true if, on each CPU that this process may use, the counter at the rate NS_PER_TICK
 * (32.32) agrees with CLOCK_MONOTONIC within a microsecond, plus the possible error of a measured
 * rate. The calling thread visits each CPU; its affinity is restored.
 */
bool ticks_agree(uint64_t ns_per_tick);

uint64_t ticks_now(void);

struct tick_moment {
	uint64_t ticks;
	int64_t ns; /* the time of CLOCK_MONOTONIC */
};

/*
 * Read the counter and CLOCK_MONOTONIC at nearly the same moment: read both several times, and
 * return the reading that took the least time.
 */
struct tick_moment ticks_moment(void);

#endif

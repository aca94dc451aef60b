/* SPDX-License-Identifier: MIT */
/* The time stamp counter of the processor as a clock. */
#ifndef INSIDE_TICKS_H
#define INSIDE_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"

/* True: the counter runs at one rate, never stops, and is the same on all CPUs. */
bool ticks_are_clock(void);

/*
 * *NS_PER_TICK: nanoseconds per tick as a 32.32 fixed-point number, as the kernel knows it, or measured in
 * 20 ms. Returns 0, or -ENOTSUP and one sentence if the counter is no clock.
 */
int ticks_ns_per_tick(struct ocp_ctx *ctx, uint64_t *ns_per_tick);

/*
 * True: on each CPU that this process may use, the counter agrees with CLOCK_MONOTONIC within a microsecond, at
 * the rate NS_PER_TICK (32.32). The calling thread visits each CPU; its affinity is restored.
 */
bool ticks_agree(uint64_t ns_per_tick);

uint64_t ticks_now(void);

struct tick_moment {
	uint64_t ticks;
	int64_t ns; /* CLOCK_MONOTONIC */
};

/* Both clocks at one moment: of some readings, the one that took the least time. */
struct tick_moment ticks_moment(void);

#endif

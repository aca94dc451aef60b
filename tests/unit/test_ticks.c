// SPDX-License-Identifier: MIT
/* The time stamp counter as a clock, on machines whose kernel uses another clock. */
#include "unit.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernel/ticks.h"

static long shift_of_cpu_ns;
static int shifted_cpu;

WRAP(int, clock_gettime, (clockid_t id, struct timespec *ts), (id, ts))
{
	const int status = __real_clock_gettime(id, ts);

	if (shift_of_cpu_ns && sched_getcpu() == shifted_cpu) {
		ts->tv_nsec += shift_of_cpu_ns;
		ts->tv_sec += ts->tv_nsec / 1000000000;
		ts->tv_nsec %= 1000000000;
	}
	return status;
}

static uint64_t rate(void)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	uint64_t ns_per_tick = 0;

	assert_int_equal(ticks_ns_per_tick(ctx, &ns_per_tick), 0);
	ocp_ctx_free(ctx);
	return ns_per_tick;
}

TEST(the_rate_is_that_of_the_clock)
{
	const uint64_t ns_per_tick = rate();
	const struct tick_moment begin = ticks_moment();
	struct tick_moment end;
	int64_t difference;

	usleep(50000);
	end = ticks_moment();
	difference = (int64_t)(((unsigned __int128)(end.ticks - begin.ticks) * ns_per_tick) >> 32) -
		     (end.ns - begin.ns);
	assert_true(difference < (end.ns - begin.ns) / 1000);
	assert_true(-difference < (end.ns - begin.ns) / 1000);
}

/*
 * The first CPU is the one that the thread runs on; the shift is on another, or the rate is
 * another.
 */
TEST(counters_that_disagree_are_found)
{
	const uint64_t ns_per_tick = rate();
	cpu_set_t before, after;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_true(ticks_agree(ns_per_tick));
	for (shifted_cpu = 0; shifted_cpu < 2; shifted_cpu++) {
		shift_of_cpu_ns = 50000;
		if (CPU_COUNT(&before) > 1)
			assert_false(ticks_agree(ns_per_tick));
		shift_of_cpu_ns = 0;
	}
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
}

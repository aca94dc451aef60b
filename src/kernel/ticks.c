// SPDX-License-Identifier: MIT
/*
 * The time stamp counter is a clock if its rate does not depend on the clock rate of the processor
 * (constant_tsc), if it does not stop when a CPU sleeps (nonstop_tsc), and if the counters of all
 * CPUs agree. The kernel compares the counters, and removes tsc from its list of clock sources if
 * they do not agree. But on a virtual machine with another clock source (kvm-clock,
 * hyperv_clocksource_tsc_page), tsc may be missing from this list although the counters agree. So
 * if tsc is missing, ticks_agree() compares the counter of each CPU with CLOCK_MONOTONIC.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>
#include "base/clock.h"
#include "kernel/ticks.h"
#include "kernel/perf_event.h"

enum {
	CALIBRATION_NS = 20000000,
	TRIES = 8,
	MAX_CPUS = 8192, /* the kernel's limit of the number of CPUs: NR_CPUS on x86-64 */
	AGREEMENT_NS = 1000,
	/*
	 * A rate that is measured over CALIBRATION_NS is wrong by less than 1 part in
	 * RATE_ERRORS_PER_NS: 200 ns in 20 ms.
	 */
	RATE_ERRORS_PER_NS = 100000,
};

uint64_t ticks_now(void)
{
	return __rdtsc();
}

/*
 * Find the first line of PATH that begins with PREFIX. Return true if WORD is a word of this line.
 */
static bool line_has_word(const char *path, const char *prefix, const char *word)
{
	FILE *file = fopen(path, "re");
	bool is_there = false;
	char *line = NULL, *rest = NULL;
	size_t room = 0;

	if (!file)
		return false;
	while (getline(&line, &room, file) > 0) {
		if (strncmp(line, prefix, strlen(prefix)) != 0)
			continue;
		for (char *w = strtok_r(line, " \t\n", &rest); w && !is_there;
		     w = strtok_r(NULL, " \t\n", &rest))
			is_there = !strcmp(w, word);
		break;
	}
	free(line);
	fclose(file);
	return is_there;
}

struct tick_moment ticks_moment(void)
{
	struct tick_moment best = { 0 };
	uint64_t best_ticks = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		const uint64_t before = ticks_now();
		const int64_t ns = clock_ns(CLOCK_MONOTONIC);
		const uint64_t ticks = ticks_now() - before;

		if (ticks < best_ticks) {
			best_ticks = ticks;
			best = (struct tick_moment){ .ticks = before + ticks / 2, .ns = ns };
		}
	}
	return best;
}

static bool measure_tick(uint64_t *ns_per_tick)
{
	const struct timespec pause = { .tv_nsec = CALIBRATION_NS };
	const struct tick_moment begin = ticks_moment();
	struct tick_moment end;

	nanosleep(&pause, NULL);
	end = ticks_moment();
	if (end.ticks <= begin.ticks || end.ns <= begin.ns)
		return false;
	*ns_per_tick = (uint64_t)(((unsigned __int128)(end.ns - begin.ns) << 32) /
				  (end.ticks - begin.ticks));
	return true;
}

static bool is_steady(void)
{
	return line_has_word("/proc/cpuinfo", "flags", "constant_tsc") &&
	       line_has_word("/proc/cpuinfo", "flags", "nonstop_tsc");
}

static bool is_clock_source(void)
{
	return line_has_word("/sys/devices/system/clocksource/clocksource0/available_clocksource",
			     "", "tsc");
}

/*
 * Return true if, from BEGIN to END, the counter at the rate NS_PER_TICK has advanced by the same
 * time as CLOCK_MONOTONIC, within the tolerated error.
 */
static bool on_one_line(const struct tick_moment *begin, const struct tick_moment *end,
			uint64_t ns_per_tick)
{
	const int64_t ticks = (int64_t)(end->ticks - begin->ticks);
	const int64_t ns = end->ns - begin->ns;
	const int64_t expected = (int64_t)(((__int128)ticks * ns_per_tick) >> 32);

	return llabs(ns - expected) <= AGREEMENT_NS + llabs(ns) / RATE_ERRORS_PER_NS;
}

bool ticks_agree(uint64_t ns_per_tick)
{
	const size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
	cpu_set_t *allowed = CPU_ALLOC(MAX_CPUS), *one = CPU_ALLOC(MAX_CPUS);
	const struct tick_moment begin = ticks_moment();
	bool agree = allowed && one && sched_getaffinity(0, bytes, allowed) == 0;

	if (agree) {
		for (long cpu = 0; agree && cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
			struct tick_moment moment;

			CPU_ZERO_S(bytes, one);
			CPU_SET_S((size_t)cpu, bytes, one);
			/* If this fails, the CPU is offline or not available to this process. */
			if (sched_setaffinity(0, bytes, one) != 0)
				continue;
			moment = ticks_moment();
			agree = on_one_line(&begin, &moment, ns_per_tick);
		}
		sched_setaffinity(0, bytes, allowed);
	}
	CPU_FREE(allowed);
	CPU_FREE(one);
	return agree;
}

/*
 * Find the rate. Return NULL on success; otherwise the reason why the counter is not usable as a
 * clock.
 */
static const char *find_rate(uint64_t *ns_per_tick)
{
	if (!is_steady())
		return "the time stamp counter of this processor changes its rate or stops";
	if (perf_event_tick_rate(ns_per_tick))
		return NULL;
	if (!measure_tick(ns_per_tick) || !*ns_per_tick)
		return "the time stamp counter does not advance";
	if (!is_clock_source() && !ticks_agree(*ns_per_tick))
		return "the time stamp counters of the CPUs do not agree";
	return NULL;
}

bool ticks_are_clock(void)
{
	uint64_t ns_per_tick;

	return find_rate(&ns_per_tick) == NULL;
}

int ticks_ns_per_tick(struct ocp_ctx *ctx, uint64_t *ns_per_tick)
{
	const char *reason = find_rate(ns_per_tick);

	return reason ? ctx_error(ctx, -ENOTSUP, "%s: pairs cannot be timed inside a process",
				  reason)
		      : 0;
}

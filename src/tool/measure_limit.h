/* SPDX-License-Identifier: MIT */
/*
 * Measure the share of each process's CPU time that is spent on hits. `attach` without --budget has
 * a default limit of this share, since the programs may belong to other people, and the user often
 * cannot foresee the number of hits. The CPU time is read from the CPU clock of the process, and
 * includes the time of the hits.
 */
#ifndef TOOL_MEASURE_LIMIT_H
#define TOOL_MEASURE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "measure/spending.h"

struct ocp_costs;
struct ocp_meter;
struct cpu_process;
struct measure_session;
struct ocp_process;
struct options;

struct cpu_shares {
	struct ocp_meter *meter;
	struct cpu_process *list;
	size_t n;
	uint64_t past_hits;   /* hits of processes that have ended */
	int64_t past_cpu_ns;  /* CPU time of processes that have ended */
	struct hit_sums sums; /* sums over all hits */
	/* it is not known which process has caused which hits, so no share is known */
	bool is_unknown;
	int64_t began_ns;  /* the time of the first cpu_shares_look() */
	int64_t looked_ns; /* the time of the last cpu_shares_look(); 0: there was none */
};

/*
 * The cost of the hits of one process or of all processes in some span of time, and the CPU time of
 * these processes in this span, which includes the cost.
 */
struct cpu_share {
	pid_t pid;
	double cost_ns, cpu_ns, span_ns;
};

/*
 * Record the hits and the CPU time of each process. Call this right after the attach, several times
 * per second, and at the end. Returns 0 or a negative errno.
 */
int cpu_shares_look(struct cpu_shares *shares, struct ocp_meter *meter);
/*
 * Return true if measuring took more than the share MOST of a process's CPU time in the last
 * second. Then set *WORST to the largest share of a process in this second. A cost below 1% of a
 * core never exceeds the limit.
 */
bool cpu_shares_exceed(const struct cpu_shares *shares, const struct ocp_costs *costs, double most,
		       struct cpu_share *worst);
/* Set *TOTAL to the share of all processes since the attach. Return false if it is not known. */
bool cpu_shares_total(const struct cpu_shares *shares, const struct ocp_costs *costs,
		      struct cpu_share *total);
void cpu_shares_free(struct cpu_shares *shares);

/*
 * Return true if the cost is below 1% of a core, which is harmless even if the process does little
 * else.
 */
bool cpu_share_is_small(const struct cpu_share *share);
/* Return the share, limited to 1: the clocks and the calibrated cost are not exact. */
double cpu_share_of(const struct cpu_share *share);
/*
 * slowdown_text() writes "it runs at least 12 times slower" to TEXT, with RUNS in place of "it
 * runs", or "" if the slowdown is below 1.5 times, and returns TEXT. The text says "at least",
 * since it is computed with the lowest cost of a hit that was seen.
 */
enum { SLOWDOWN_BYTES = 96 };
/*
 * share_text() writes ", 91.94% of the program's CPU time: it runs at least 12 times slower" to
 * TEXT, or "" if SHARE is NULL, and returns TEXT.
 */
enum { SHARE_BYTES = SLOWDOWN_BYTES + 64 };
const char *share_text(char text[SHARE_BYTES], const struct cpu_share *share);
const char *slowdown_text(char text[SLOWDOWN_BYTES], const char *runs, double share);

/*
 * Return the default limit of the share of CPU time, 0.2 for 20%. Return 0 if OPTIONS lift this
 * limit or set a budget.
 */
double measure_limit_of(const struct options *options);
/*
 * Before the attach, if S measures at least 1000 places: measure each place for a moment, one part
 * of the places at a time, and estimate the share of CPU time. Warn if the share is above the
 * limit. Returns EXIT_DONE, also if sampling is not possible, or EXIT_OVER_BUDGET after saying that
 * the N processes PROCS would run more than twice as long.
 */
int measure_limit_sample(const struct measure_session *s, struct ocp_process **procs, size_t n);
/*
 * Say that measuring has taken SHARE, which is above the limit, and name cheaper ways to measure.
 */
void measure_limit_say(const struct measure_session *s, const struct cpu_share *share);

#endif

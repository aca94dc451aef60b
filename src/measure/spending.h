/* SPDX-License-Identifier: MIT */
/*
 * Reads how many hits each process has made so far. From these numbers, callers compute the cost of
 * measuring. Reading is cheap: callers do it ten times a second, and compare the cost with the CPU
 * time of the processes.
 */
#ifndef MEASURE_SPENDING_H
#define MEASURE_SPENDING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ocp_costs;
struct ocp_meter;

/* The numbers of hits by kind (the kinds differ in cost), and the time of all stack walks. */
struct hit_sums {
	uint64_t all, stepped, paired, walk_ns;
	/*
	 * Hits of processes that are not measured, hits that the filter rejects, and calls that are
	 * not outermost. The other sums do not include these hits.
	 */
	uint64_t unlisted;
};

/* Return the average cost of a hit in nanoseconds. */
double hit_sums_cost_ns(const struct hit_sums *sums, const struct ocp_costs *costs);
/* Return the hits at single-stepped sites, including a proportional share of the unlisted hits. */
uint64_t hit_sums_stepped(const struct hit_sums *sums);

struct spending_process {
	pid_t pid;
	uint64_t hits;
};

struct spending {
	struct hit_sums sums;
	/* if n is 0, it is not known which processes made the hits */
	struct spending_process *processes;
	size_t n;
};

/*
 * Make METER count the hits of each process. Call this before METER is opened, if it measures more
 * than one process.
 */
void meter_count_processes(struct ocp_meter *meter);
/*
 * Read the hits and sums so far. Return 0 or a negative errno. The caller frees SPENDING with
 * spending_free(), also on failure.
 */
int meter_read_spending(struct ocp_meter *meter, struct spending *spending);
void spending_free(struct spending *spending);

#endif

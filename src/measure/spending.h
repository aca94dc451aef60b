/* SPDX-License-Identifier: MIT */
/*
 * What measuring has cost each process so far, in hits: a cheap reading, for those who compare it with the
 * CPU time of the processes ten times a second.
 */
#ifndef MEASURE_SPENDING_H
#define MEASURE_SPENDING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ocp_costs;
struct ocp_meter;

/* Hits, by what they cost. */
struct hit_sums {
	uint64_t all, stepped, paired, walk_ns;
	uint64_t
		unlisted; /* of other processes, and those that the filter rejects; not in the others */
};

/* The average cost of a hit. */
double hit_sums_cost_ns(const struct hit_sums *sums, const struct ocp_costs *costs);
/* The hits at single-stepped sites, with their part of the unlisted ones. */
uint64_t hit_sums_stepped(const struct hit_sums *sums);

struct spending_process {
	pid_t pid;
	uint64_t hits;
};

struct spending {
	struct hit_sums sums;
	struct spending_process *processes; /* none: which process has made the hits is not known */
	size_t n;
};

/* Before the meter is opened: count the hits of each process. With one process they are known anyway. */
void meter_count_processes(struct ocp_meter *meter);
/* Returns 0 or a negative errno. The caller frees SPENDING with spending_free(), also after an error. */
int meter_read_spending(struct ocp_meter *meter, struct spending *spending);
void spending_free(struct spending *spending);

#endif

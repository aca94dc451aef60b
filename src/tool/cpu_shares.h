/* SPDX-License-Identifier: MIT */
/*
 * What measuring does to each process: the share of its CPU time that the hits take. The CPU time is that of
 * the kernel's books (the CPU clock of the process), in which the hits are contained.
 */
#ifndef TOOL_CPU_SHARES_H
#define TOOL_CPU_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "measure/spending.h"

struct ocp_costs;
struct ocp_meter;
struct cpu_process;

struct cpu_shares {
	struct ocp_meter *meter;
	struct cpu_process *list;
	size_t n;
	uint64_t past_hits;   /* of processes that have ended, */
	int64_t past_cpu_ns;  /* and their CPU time */
	struct hit_sums sums; /* of all hits */
	bool is_unknown;      /* which process has made the hits */
	int64_t began_ns;     /* the time of the first look */
	int64_t looked_ns;    /* the time of the last look; 0: there was none */
};

/* Hits and the CPU time with them, of one process or of all. */
struct cpu_share {
	pid_t pid;
	double cost_ns, cpu_ns, span_ns;
};

/*
 * Note what has been hit, and what CPU time the processes have had. To be called right after the attach, some
 * times a second, and at the end. Returns 0 or a negative errno.
 */
int cpu_shares_look(struct cpu_shares *shares, struct ocp_meter *meter);
/*
 * Has measuring taken more than MOST of the CPU time of a process in the last second? If so, *WORST is its
 * share in this second. A cost below 1% of a core is always within the limit.
 */
bool cpu_shares_exceed(const struct cpu_shares *shares, const struct ocp_costs *costs, double most,
		       struct cpu_share *worst);
/* Of all processes since the attach. False: not known. */
bool cpu_shares_total(const struct cpu_shares *shares, const struct ocp_costs *costs,
		      struct cpu_share *total);
void cpu_shares_free(struct cpu_shares *shares);

/* Is the cost below 1% of a core? It harms nobody then, whatever the process does otherwise. */
bool cpu_share_is_small(const struct cpu_share *share);
/* At most 1, whatever the clocks and the calibrated cost say. */
double cpu_share_of(const struct cpu_share *share);
/*
 * "it runs at least 12 times slower", with RUNS for "it runs"; "" if it runs less than half as long again. At least:
 * the cost of a hit is the least one that was seen. Returns TEXT.
 */
enum { SLOWDOWN_BYTES = 96 };
/* ", 91.94% of the program's CPU time: it runs at least 12 times slower"; "" for NULL. Returns TEXT. */
enum { SHARE_BYTES = SLOWDOWN_BYTES + 64 };
const char *share_text(char text[SHARE_BYTES], const struct cpu_share *share);
const char *slowdown_text(char text[SLOWDOWN_BYTES], const char *runs, double share);

#endif

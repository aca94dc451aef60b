/* SPDX-License-Identifier: MIT */
/*
 * The counters of a trace: figures of a process that change all the time, read ten times a second:
 * those of its collector, how many of its threads run or wait for a CPU, and the hits per second.
 */
#ifndef RECORD_COUNTERS_H
#define RECORD_COUNTERS_H

#include <stdint.h>
#include <sys/types.h>

struct counters;
struct ocp_ctx;
struct ocp_meter;
struct trace;

/*
 * Set *COUNTERS to the counters of process PID, and count from now on the hits of METER, which is
 * attached. Without a known OCaml runtime, there are no figures of the collector. The caller frees
 * *COUNTERS. Returns 0 or -ENOMEM.
 */
int counters_open(struct ocp_ctx *ctx, pid_t pid, struct ocp_meter *meter,
		  struct counters **counters);
void counters_free(struct counters *counters);

/*
 * Add the values at NOW_NS (CLOCK_MONOTONIC) to TRACE, if it is time to read them. A figure that
 * cannot be read is left out: the process may be about to end. Returns 0 or -ENOMEM.
 */
int counters_read(struct counters *counters, struct trace *trace, int64_t now_ns);

#endif

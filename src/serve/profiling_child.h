/* SPDX-License-Identifier: MIT */
/*
 * `probes-profiler`, the process that takes profiles of CPU time and allocation. It is a child of
 * the measuring process, and has the same rights. It is a separate process because unwind tables
 * and names of stacks take long to make: the measuring process would be busy for too long. The two
 * processes communicate through a channel (serve/profile_taker.h).
 */
#ifndef SERVE_PROFILING_CHILD_H
#define SERVE_PROFILING_CHILD_H

#include <sys/types.h>
#include "base/ctx.h"

/*
 * Run as `probes-profiler` until the other end of FD is closed or PARENT ends. RATE is unused.
 * Return an exit status.
 */
int profiling_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);

#endif

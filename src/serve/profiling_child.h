/* SPDX-License-Identifier: MIT */
/*
 * `probes-profiler`, the process that takes profiles of CPU time and allocation. Making unwind
 * tables and naming stacks would keep the measuring process busy for too long, so a child of it
 * does this, with the same rights. The two communicate through a channel (serve/profile_taker.h).
 */
#ifndef SERVE_PROFILING_CHILD_H
#define SERVE_PROFILING_CHILD_H

#include <sys/types.h>
#include "base/ctx.h"

/*
 * Run as this process until the other end of FD is closed or PARENT ends. RATE is not used. Return
 * an exit status.
 */
int profiling_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);

#endif

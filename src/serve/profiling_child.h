/* SPDX-License-Identifier: MIT */
/*
 * The process that takes profiles, `probes-profiler`. Making unwind tables and naming stacks takes
 * longer than the measuring process may be busy, so this is done in a child of it, with the same
 * rights. The two speak through a channel (serve/profile_taker.h).
 */
#ifndef SERVE_PROFILING_CHILD_H
#define SERVE_PROFILING_CHILD_H

#include <sys/types.h>
#include "base/ctx.h"

/* Be the process, until the other end of FD is closed or PARENT ends. Returns an exit status. */
int profiling_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);

#endif

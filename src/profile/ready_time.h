/* SPDX-License-Identifier: MIT */
/*
 * How long the threads of processes could run, but had no CPU: the time in the run queues, by the
 * kernel's account of each thread (the second number of /proc/PID/task/TID/schedstat).
 *
 * A thread that begins is counted from its beginning. A thread that ends, and a process that
 * executes another file, are counted until the last refresh before.
 */
#ifndef PROFILE_READY_TIME_H
#define PROFILE_READY_TIME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

struct ready_time;

int ready_time_open(struct ocp_ctx *ctx, struct ready_time **out);
/* RT may be NULL. */
void ready_time_close(struct ready_time *rt);

/*
 * Count the threads of process PID from now on, or from ready_time_start() if this is called later.
 * Returns 0 or -ENOMEM.
 */
int ready_time_add(struct ready_time *rt, pid_t pid);
void ready_time_start(struct ready_time *rt);
/* Read all threads. Call this about once a second. */
void ready_time_refresh(struct ready_time *rt);
/* Read all threads for the last time. Later calls have no effect. */
void ready_time_stop(struct ready_time *rt);

/*
 * Set *NS to the time in nanoseconds up to the last refresh. Return false if it is not known: the
 * kernel has no such account, or memory ran out.
 */
bool ready_time_ns(const struct ready_time *rt, uint64_t *ns);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Stopping all threads of a process by ptrace(2), or starting a process stopped. The calls may come
 * from different threads of the caller, but only one at a time.
 */
#ifndef TRACEE_TRACEE_H
#define TRACEE_TRACEE_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/ctx.h"

struct tracee;

/* Prepare to stop PID, any number of times. Does not touch the process yet. */
int tracee_open(struct ocp_ctx *ctx, pid_t pid, struct tracee **out);

/*
 * Stop all threads. After a failure no thread is left stopped. Returns -EBUSY if another process
 * traces PID (the message names it), -ETIMEDOUT if a thread does not stop.
 */
int tracee_stop(struct tracee *tracee);

/*
 * Stop all threads, call WORK(ARG), and let the threads continue. The tracing thread calls WORK
 * while the calling thread waits: waking another thread would prolong the stop. Returns the value
 * of WORK, or a negative errno if the process could not be stopped.
 */
int tracee_run_stopped(struct tracee *tracee, int (*work)(void *arg), void *arg);

/*
 * Let all threads continue as before. Signals that arrived during the stop are delivered; a process
 * that was stopped (SIGSTOP) stays stopped.
 */
void tracee_release(struct tracee *tracee);

/* Release the process if it is stopped, and free TRACEE, which may be NULL. */
void tracee_close(struct tracee *tracee);

/*
 * Start PATH with ARGV as a child. The child is stopped when its shared libraries are mapped,
 * before any code of the program or of a library's constructor has run. The kernel kills the child
 * if this process dies before the release.
 */
int tracee_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[], struct tracee **out);

/*
 * Return true if tracee_spawn() started TRACEE: the kernel kills it if this process dies before the
 * release.
 */
bool tracee_dies_with_us(const struct tracee *tracee);

pid_t tracee_pid(const struct tracee *tracee);

/* Kill a spawned process, wait for its end, and free TRACEE, which may be NULL. */
void tracee_kill(struct tracee *tracee);

#endif

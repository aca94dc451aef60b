/* SPDX-License-Identifier: MIT */
/*
 * A stopped process: all its threads, held by ptrace. Made by stopping a running process or by
 * starting a new one. Any thread may let it go again.
 */
#ifndef PROCESS_TRACEE_H
#define PROCESS_TRACEE_H

#include <sys/types.h>
#include "base/ctx.h"

struct tracee;

/*
 * Stop all threads of PID. On failure nothing is left stopped. -EBUSY if somebody else traces it
 * (named in the sentence), -ETIMEDOUT if a thread does not stop.
 */
int tracee_stop(struct ocp_ctx *ctx, pid_t pid, struct tracee **out);

/*
 * Start PATH with ARGV as a child that is stopped when its shared libraries are mapped and before
 * any code of the program or of a library's constructor has run. It is killed if we die before it
 * is released.
 */
int tracee_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[], struct tracee **out);

pid_t tracee_pid(const struct tracee *tracee);

/*
 * Let all threads go on as they were: signals that arrived meanwhile are delivered, a process that
 * was stopped (SIGSTOP) stays so. Frees the tracee; takes NULL.
 */
void tracee_release(struct tracee *tracee);

/* Kill a spawned process that shall not run after all, wait for its end, and free the tracee. */
void tracee_kill(struct tracee *tracee);

#endif

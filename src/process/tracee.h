/* SPDX-License-Identifier: MIT */
/*
 * Stopping a process: all its threads, by ptrace; or starting one stopped. Any thread of the caller
 * may do the next step, one at a time.
 */
#ifndef PROCESS_TRACEE_H
#define PROCESS_TRACEE_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/ctx.h"

struct tracee;

/* Prepare to stop PID, any number of times. Does not touch it. */
int tracee_open(struct ocp_ctx *ctx, pid_t pid, struct tracee **out);

/*
 * Stop all threads. On failure nothing is left stopped. -EBUSY if somebody else traces it (named in
 * the sentence), -ETIMEDOUT if a thread does not stop.
 */
int tracee_stop(struct tracee *tracee);

/*
 * Stop all threads, call WORK(ARG), let them go on. WORK is called by another thread, while this
 * one waits: the process does not wait for two threads to wake each other. Returns what WORK
 * returns, or why the process could not be stopped.
 */
int tracee_run_stopped(struct tracee *tracee, int (*work)(void *arg), void *arg);

/*
 * Let all threads go on as they were: signals that arrived meanwhile are delivered, a process that
 * was stopped (SIGSTOP) stays so.
 */
void tracee_release(struct tracee *tracee);

/* Release if need be, and free; takes NULL. */
void tracee_close(struct tracee *tracee);

/*
 * Start PATH with ARGV as a child that is stopped when its shared libraries are mapped and before
 * any code of the program or of a library's constructor has run. It is killed if we die before it
 * is released.
 */
int tracee_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[], struct tracee **out);

/* Has tracee_spawn started it, so that it is killed if we die now? */
bool tracee_dies_with_us(const struct tracee *tracee);

pid_t tracee_pid(const struct tracee *tracee);

/* Kill a spawned process that shall not run after all, wait for its end, and free the tracee. */
void tracee_kill(struct tracee *tracee);

#endif

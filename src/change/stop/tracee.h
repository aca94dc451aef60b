/* SPDX-License-Identifier: MIT */
/*
 * Room change/stop: stopping processes, and writing single bytes into them.
 * In: a pid or a command; addresses with the bytes to write.
 * Out: a stopped process, which continues when it is released.
 * Callers: change/inside, change/switch, process (to hold a process). No other room calls
 * ptrace(2).
 */
/*
 * Stopping all threads of a process by ptrace(2), and starting a program as a stopped process.
 * Different threads of the caller may call these functions, but only one at a time.
 */
#ifndef CHANGE_STOP_TRACEE_H
#define CHANGE_STOP_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"

struct tracee;

/* Prepare to stop PID, any number of times. Does not touch the process yet. */
int tracee_open(struct ocp_ctx *ctx, pid_t pid, struct tracee **out);

/*
 * Stop all threads of the process. After a failure no thread is left stopped. Returns -EBUSY if
 * another process traces the process (the message names the tracer), and -ETIMEDOUT if a thread
 * does not stop.
 */
int tracee_stop(struct tracee *tracee);

/*
 * Stop all threads of the process, call WORK(ARG), and let the threads continue. The tracing thread
 * itself calls WORK, while the calling thread waits: to wake another thread would prolong the stop.
 * Returns the value of WORK, or a negative errno if the process could not be stopped. A process
 * that tracee_spawn() has started stays stopped, also after an error, until the release.
 */
int tracee_run_stopped(struct tracee *tracee, int (*work)(void *arg), void *arg);

/*
 * Let all threads continue as before the stop. Signals that arrived during the stop are delivered;
 * a process that was stopped (SIGSTOP) before stays stopped.
 */
void tracee_release(struct tracee *tracee);

/* Release the process if it is stopped, and free TRACEE, which may be NULL. */
void tracee_close(struct tracee *tracee);

/*
 * Start PATH with ARGV as a child. The child is stopped when its shared libraries are mapped,
 * before any code of the program or any constructor of a library has run. The kernel kills the
 * child if this process dies before the release.
 */
int tracee_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[], struct tracee **out);

/*
 * Return true if tracee_spawn() started the process: the kernel then kills it if this process dies
 * before the release.
 */
bool tracee_dies_with_us(const struct tracee *tracee);

pid_t tracee_pid(const struct tracee *tracee);

/*
 * Kill the process that tracee_spawn() started, wait for its end, and free TRACEE, which may be
 * NULL.
 */
void tracee_kill(struct tracee *tracee);

/*
 * The threads of a stopped process, one by one. Call the functions below only in the WORK of
 * tracee_run_stopped(), which runs in the tracing thread: ptrace(2) accepts requests only from this
 * thread.
 */
size_t tracee_n_threads(const struct tracee *tracee);

/*
 * Return the id of thread number I. *SIGNAL is set to the signal at which the thread is stopped,
 * which is delivered at the release; 0 if the thread is not stopped at a signal.
 */
pid_t tracee_tid(const struct tracee *tracee, size_t i, int *signal);

enum thread_step {
	STEP_TO_SYSCALL_STOP, /* run until a system call begins or ends */
	STEP_TO_EVENT_STOP,   /* run until the stop that PTRACE_INTERRUPT causes */
};

/*
 * Let thread TID run until STEP; all other threads stay stopped. TID should have its signals
 * blocked: if it is stopped at a signal, that signal is passed to it and becomes pending again.
 * Returns -ESRCH if TID has ended, or -ETIMEDOUT if it has not reached STEP in time. After
 * -ETIMEDOUT the thread is still running: the WORK of tracee_run_stopped() must return this error,
 * so that the kernel detaches the thread.
 */
int tracee_step(struct tracee *tracee, pid_t tid, enum thread_step step);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The threads of a stopped process, one by one. Call these functions only in the WORK of
 * tracee_run_stopped(): ptrace(2) accepts requests from the tracing thread only.
 */
#ifndef TRACEE_THREAD_STEP_H
#define TRACEE_THREAD_STEP_H

#include <stddef.h>
#include <sys/types.h>
#include "tracee/tracee.h"

size_t tracee_n_threads(const struct tracee *tracee);

/*
 * Return the id of the I-th thread. *SIGNAL is the signal at which the thread is stopped, which is
 * delivered when the thread is released; 0: none.
 */
pid_t tracee_tid(const struct tracee *tracee, size_t i, int *signal);

enum thread_step {
	STEP_TO_SYSCALL_STOP, /* until a system call begins or ends */
	STEP_TO_EVENT_STOP,   /* until the stop that PTRACE_INTERRUPT causes */
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

/* SPDX-License-Identifier: MIT */
/*
 * The threads of a stopped process, one by one. All functions are for the work of
 * tracee_run_stopped(): ptrace(2) accepts requests from the tracing thread only.
 */
#ifndef TRACEE_THREAD_STEP_H
#define TRACEE_THREAD_STEP_H

#include <stddef.h>
#include <sys/types.h>
#include "tracee/tracee.h"

size_t tracee_n_threads(const struct tracee *tracee);

/*
 * Return the I-th thread. *SIGNAL is the signal at which the thread is stopped, and which the
 * release delivers; 0: none.
 */
pid_t tracee_tid(const struct tracee *tracee, size_t i, int *signal);

enum thread_step {
	STEP_TO_SYSCALL_STOP, /* until a system call begins or ends */
	STEP_TO_EVENT_STOP,   /* until it stops as tracee_run_stopped() stops a thread */
};

/*
 * Let thread TID run; all others stay stopped. The signals of TID should be blocked: a signal at
 * which it is stopped is then pending again. Returns -ESRCH if TID has ended, -ETIMEDOUT if it does
 * not reach STEP: it still runs, and the work must return that error, so that the kernel detaches
 * it.
 */
int tracee_step(struct tracee *tracee, pid_t tid, enum thread_step step);

#endif

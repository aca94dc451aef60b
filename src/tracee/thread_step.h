/* SPDX-License-Identifier: MIT */
/*
 * The threads of a stopped process, one by one. All functions are for the work of
 * tracee_run_stopped(): ptrace(2) obeys the tracing thread only.
 */
#ifndef TRACEE_THREAD_STEP_H
#define TRACEE_THREAD_STEP_H

#include <stddef.h>
#include <sys/types.h>
#include "tracee/tracee.h"

size_t tracee_n_threads(const struct tracee *tracee);

/*
 * The I-th thread. *SIGNAL is the signal that it is stopped at and that the release delivers; 0: none.
 */
pid_t tracee_tid(const struct tracee *tracee, size_t i, int *signal);

enum thread_step {
	STEP_TO_SYSCALL_STOP, /* until a system call begins or ends */
	STEP_TO_EVENT_STOP,   /* until it is stopped as tracee_run_stopped() stops a thread */
};

/*
 * Let the thread TID run, all others stay stopped. Its signals should be blocked; one that it is
 * stopped at is then pending again. -ESRCH if it has ended. -ETIMEDOUT if it does not get there: it
 * runs, and the work must end with that error, so that the kernel detaches it.
 */
int tracee_step(struct tracee *tracee, pid_t tid, enum thread_step step);

#endif

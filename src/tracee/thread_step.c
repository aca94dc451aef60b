// SPDX-License-Identifier: MIT
/*
 * Letting one thread of a stopped process run for a moment.
 *
 * A thread that was stopped at a signal is resumed with this signal. The caller of tracee_step()
 * has blocked all signals of the thread, so the kernel makes this signal pending again, with its
 * siginfo (ptrace_signal() of kernel/signal.c). SIGSTOP cannot be blocked. If SIGSTOP comes while
 * the thread runs, it is passed on: the process enters the group stop, which the kernel remembers,
 * and the thread is resumed once more.
 */
#include "tracee/thread_step.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tracee/held.h"
#include "tracee/proc_file.h"
#include "tracee/wait_status.h"

enum {
	SYSCALL_STOP = SIGTRAP | 0x80,
	LOOK_CLOSER = 32, /* check more closely after this many polls */
};

size_t tracee_n_threads(const struct tracee *tracee)
{
	return tracee->n;
}

pid_t tracee_tid(const struct tracee *tracee, size_t i, int *signal)
{
	*signal = tracee->threads[i].signal;
	return tracee->threads[i].tid;
}

static int report_ended(const struct tracee *tracee)
{
	return ctx_error(tracee->ctx, -ESRCH, "pid %d: has ended", (int)tracee->pid);
}

/*
 * Return true if TID has ended. waitpid(2) cannot tell for the main thread: it reports that end
 * only after all other threads have ended, and these are stopped now.
 */
static bool is_a_zombie(struct tracee *tracee, pid_t tid)
{
	struct proc_status status;
	const int err = proc_status_read(tracee->ctx, tid, &status);

	return err == -ESRCH || (!err && (status.state == 'Z' || status.state == 'X'));
}

/*
 * Return true if it is time to give up, after a wait of SINCE_MS. As in is_too_late() of tracee.c,
 * the limit is longer for a thread that waits for a CPU.
 */
static bool is_too_late(struct tracee *tracee, pid_t tid, int64_t since_ms)
{
	struct proc_status status;

	if (since_ms <= STOP_TIMEOUT_MS)
		return false;
	return since_ms > BUSY_TIMEOUT_MS || proc_status_read(tracee->ctx, tid, &status) != 0 ||
	       status.state != 'R';
}

/*
 * Wait for the next stop of THREAD. *STATUS is set as by waitpid(2). Return 0, -ESRCH if the thread
 * has ended, or -ETIMEDOUT.
 */
static int wait_for_stop(struct tracee *tracee, struct thread *thread, int *status)
{
	const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	const bool keep_exit = tracee->is_child && thread->tid == tracee->pid;

	for (unsigned int polls = 0;; polls++) {
		const pid_t got = wait_status(thread->tid, keep_exit, status);
		int64_t since_ms;

		if (got == thread->tid) {
			thread->stopped = WIFSTOPPED(*status);
			return thread->stopped ? 0 : report_ended(tracee);
		}
		if (got < 0 && errno != EINTR)
			return report_ended(tracee);
		if (polls < SPINS)
			continue;
		if (polls % LOOK_CLOSER == 0 && is_a_zombie(tracee, thread->tid))
			return report_ended(tracee);
		since_ms = (clock_ns(CLOCK_MONOTONIC) - start_ns) / 1000000;
		if (is_too_late(tracee, thread->tid, since_ms))
			return ctx_error(tracee->ctx, -ETIMEDOUT,
					 "pid %d: thread %d does not finish a system call in %d ms",
					 (int)tracee->pid, (int)thread->tid, (int)since_ms);
		nanosleep(&(struct timespec){ .tv_nsec = SLEEP_US * 1000L }, NULL);
	}
}

static int resume(const struct tracee *tracee, struct thread *thread, enum thread_step step)
{
	const int signal = thread->signal;

	if (ptrace(step == STEP_TO_EVENT_STOP ? PTRACE_CONT : PTRACE_SYSCALL, thread->tid, NULL,
		   (void *)(intptr_t)signal) != 0)
		return report_ended(tracee);
	thread->signal = 0;
	thread->stopped = false;
	return 0;
}

static struct thread *thread_of(struct tracee *tracee, pid_t tid)
{
	for (size_t i = 0; i < tracee->n; i++)
		if (tracee->threads[i].tid == tid)
			return &tracee->threads[i];
	return NULL;
}

int tracee_step(struct tracee *tracee, pid_t tid, enum thread_step step)
{
	const uintptr_t options =
		PTRACE_O_TRACESYSGOOD | (tracee->dies_with_us ? PTRACE_O_EXITKILL : 0);
	struct thread *thread = thread_of(tracee, tid);
	int status, err;

	if (!thread || ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)options) != 0 ||
	    (step == STEP_TO_EVENT_STOP && ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0))
		return report_ended(tracee);
	for (;;) {
		err = resume(tracee, thread, step);
		if (!err)
			err = wait_for_stop(tracee, thread, &status);
		if (err)
			return err;
		if (status >> 16 == 0 && WSTOPSIG(status) != SYSCALL_STOP)
			thread->signal = WSTOPSIG(status);
		else if (step == (status >> 16 ? STEP_TO_EVENT_STOP : STEP_TO_SYSCALL_STOP))
			return 0;
	}
}

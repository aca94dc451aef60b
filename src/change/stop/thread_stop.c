// SPDX-License-Identifier: MIT
#include "change/stop/thread_stop.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"

enum {
	SPINS = 16, /* polls before the first sleep: a running thread stops within microseconds */
	SLEEP_NS = 20 * 1000,
	/*
	 * A thread that waits for a CPU stops when it gets one. A thread in an uninterruptible wait
	 * (state D) stops later; it seldom begins such a wait just before the interrupt.
	 */
	TIMEOUT_MS = 500,
};

/*
 * Wait until *TID is stopped. Set *SIGNAL to the signal that was about to be delivered, 0 if none.
 * If the thread makes an exec, *TID becomes PID: the thread that calls execve(2) gets the id of the
 * process, and the old id is gone.
 */
static int wait_for_stop(pid_t pid, pid_t *tid, int *signal)
{
	const int64_t start_ms = clock_ms();

	for (unsigned int polls = 0;; polls++) {
		int status;
		const pid_t got = waitpid(*tid, &status, __WALL | WNOHANG);

		if (got == *tid && !WIFSTOPPED(status))
			return -ESRCH;
		if (got == *tid) {
			/* The cases of a stop: see tracee.c. */
			*signal = status >> 16 ? 0 : WSTOPSIG(status);
			return 0;
		}
		if (got < 0 && errno == ECHILD && *tid == pid)
			return -ESRCH;
		if (got < 0 && errno == ECHILD) {
			*tid = pid;
			ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
		}
		if (clock_ms() - start_ms > TIMEOUT_MS)
			return -ETIMEDOUT;
		if (polls >= SPINS)
			nanosleep(&(struct timespec){ .tv_nsec = SLEEP_NS }, NULL);
	}
}

int thread_stop_run(pid_t pid, pid_t tid,
		    void (*work)(const struct user_regs_struct *regs, void *arg), void *arg,
		    uint64_t *stopped_ns)
{
	struct user_regs_struct regs;
	int64_t since_ns;
	int signal = 0, err;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0)
		return errno == ESRCH ? -ESRCH : -EPERM;
	/* If this fails, the thread has ended or makes an exec: the wait shows which. */
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	err = wait_for_stop(pid, &tid, &signal);
	if (err)
		return err;
	since_ns = clock_ns(CLOCK_MONOTONIC);
	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) == 0)
		work(&regs, arg);
	/* If the thread was killed while it was stopped, take its status. */
	if (ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)signal) != 0)
		waitpid(tid, NULL, __WALL | WNOHANG);
	*stopped_ns += (uint64_t)(clock_ns(CLOCK_MONOTONIC) - since_ns);
	return 0;
}

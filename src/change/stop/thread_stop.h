/* SPDX-License-Identifier: MIT */
/*
 * Stop one thread of a process for some microseconds, and read its registers. The other threads of
 * the process run on. To stop a whole process, see tracee.h.
 */
#ifndef CHANGE_STOP_THREAD_STOP_H
#define CHANGE_STOP_THREAD_STOP_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/*
 * Stop thread TID of process PID, call WORK with its registers and ARG, and let the thread
 * continue. A signal that arrives meanwhile is delivered, and a process that was stopped before
 * (SIGSTOP) stays stopped. If the caller dies, the kernel lets the thread continue.
 *
 * A system call in which the thread waits is interrupted and restarted; epoll_wait(2) and a few
 * others return EINTR instead (signal(7)). So call this for threads that run.
 *
 * Adds to *STOPPED_NS how long the thread was seen to be stopped, in nanoseconds.
 *
 * Returns, without a message: 0; -ESRCH if the thread has ended; -EPERM if another process traces
 * it, or it may not be traced; -ETIMEDOUT if it does not stop. After -ETIMEDOUT, the thread stays
 * traced until the calling thread ends: end the calling thread at once, so that the kernel detaches
 * the traced one. PID must not be a child of this process.
 */
int thread_stop_run(pid_t pid, pid_t tid,
		    void (*work)(const struct user_regs_struct *regs, void *arg), void *arg,
		    uint64_t *stopped_ns);

#endif

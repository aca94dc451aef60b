// SPDX-License-Identifier: MIT
/*
 * The parent of a process gets the exit status only after the tracer has taken it, so this tracer
 * takes it. An exception is a child of this process: its exit status belongs to the program that
 * uses the library (test_tracee: status_of_a_child_is_kept).
 *
 * waitid(2) reports the stops of a tracee whether or not WSTOPPED is given. So si_code decides
 * whether the tracee has ended.
 */
#include "tracee/wait_status.h"

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

/*
 * Return 1 if TID has ended, 0 if not, or -1 with errno. The status of TID can still be taken
 * afterwards.
 */
static int peek_ended(pid_t tid)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
		return -1;
	return info.si_pid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED;
}

pid_t wait_status(pid_t tid, bool keep_exit, int *status)
{
	siginfo_t info = { 0 };
	int ended;

	*status = 0;
	if (!keep_exit)
		return waitpid(tid, status, __WALL | WNOHANG);
	if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL) != 0)
		return -1;
	if (info.si_pid) {
		*status = info.si_status << 8 | 0x7f; /* as waitpid encodes a stop */
		return tid;
	}
	ended = peek_ended(tid);
	return ended > 0 ? tid : ended;
}

void wait_reap_ended(pid_t tid)
{
	siginfo_t info;

	if (peek_ended(tid) == 1)
		waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | __WALL);
}

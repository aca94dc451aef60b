/* SPDX-License-Identifier: MIT */
/*
 * Wait for a time limit, a terminating signal, or the end of all processes. From session_open() on,
 * signals are read from descriptors, so that no signal ends the tool between a change and the
 * undoing of this change.
 */
#ifndef TOOL_SESSION_H
#define TOOL_SESSION_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum ending {
	NOT_ENDED,
	ENDED_BY_TIME,
	ENDED_BY_SIGNAL,
	ENDED_WITH_PROCESS,
	ENDED_WITH_COMMAND,
	ENDED_BY_ERROR
};

struct workload;

struct session {
	struct pollfd *fds; /* [0]: the signals, then one per process, then the command */
	size_t n_fds;	    /* without the command's entry */
	size_t n_alive;
	struct workload *workload; /* NULL: there is no command */
	bool has_sigpipe;
	sigset_t mask_before;
	int err; /* for ENDED_BY_ERROR */
};

/* Returns EXIT_DONE, or another code after printing the error. Always call session_close. */
int session_open(struct session *session, const pid_t *pids, size_t n);
void session_close(struct session *session);

/*
 * Hold the command ARGV, to be started with workload_start(). The session then ends when the
 * command has ended, instead of with the processes or by a signal: signals are passed on to the
 * command. WORKLOAD must outlive the session. Returns the same as session_open().
 */
int session_hold_workload(struct session *session, struct workload *workload, char *const *argv);
/* Wait for the end of the command, if one was started. */
void session_await_workload(struct session *session);

/* Return the time of CLOCK_MONOTONIC. */
int64_t session_now_ns(void);

/*
 * Wait until UNTIL_NS (INT64_MAX: forever). Returns NOT_ENDED, or the first event that ended the
 * session.
 */
enum ending session_wait(struct session *session, int64_t until_ns);

#endif

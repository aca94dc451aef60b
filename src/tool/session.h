/* SPDX-License-Identifier: MIT */
/*
 * Waiting from the command line for a time limit, a signal to end, or the end of all processes.
 * Signals are read from descriptors from session_open on, so that none arrives between a change
 * and its undoing.
 */
#ifndef TOOL_SESSION_H
#define TOOL_SESSION_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum ending { NOT_ENDED, ENDED_BY_TIME, ENDED_BY_SIGNAL, ENDED_WITH_PROCESS, ENDED_BY_ERROR };

struct session {
	struct pollfd *fds; /* [0] the signals, then one per process */
	size_t n_fds, n_alive;
	sigset_t mask_before;
	int err; /* for ENDED_BY_ERROR */
};

/* Returns EXIT_DONE, or another code after printing the error. Always call session_close. */
int session_open(struct session *session, const pid_t *pids, size_t n);
void session_close(struct session *session);

/* The time of CLOCK_MONOTONIC. */
int64_t session_now_ns(void);

/*
 * Wait until UNTIL_NS (INT64_MAX: forever). Returns NOT_ENDED, or the first event that ended the
 * session.
 */
enum ending session_wait(struct session *session, int64_t until_ns);

#endif

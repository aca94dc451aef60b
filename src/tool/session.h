/* SPDX-License-Identifier: MIT */
/*
 * Waiting from the command line: until a time, a signal that asks us to end, or the end of all
 * processes concerned. Signals are taken as descriptors from session_open on, so that none can cut
 * between what is done and what has to be undone.
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
	struct pollfd *fds; /* [0] the signals, then one a process */
	size_t n_fds, n_alive;
	sigset_t mask_before;
	int err; /* with ENDED_BY_ERROR */
};

/* Returns EXIT_DONE, or another code after having said why. To be closed in any case. */
int session_open(struct session *session, const pid_t *pids, size_t n);
void session_close(struct session *session);

/* CLOCK_MONOTONIC. */
int64_t session_now_ns(void);

/* Wait until UNTIL_NS (INT64_MAX: for ever): NOT_ENDED, or what came first. */
enum ending session_wait(struct session *session, int64_t until_ns);

#endif

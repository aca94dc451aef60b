// SPDX-License-Identifier: MIT
#include "tool/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupted.h"
#include "base/signals.h"
#include "cli/cli.h"
#include "tool/workload.h"

int64_t session_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int session_open(struct session *s, const pid_t *pids, size_t n)
{
	sigset_t set;

	*s = (struct session){ .fds = calloc(n + 2, sizeof(*s->fds)), .n_alive = n };
	sigemptyset(&set);
	signals_add_unless_ignored(&set, SIGINT);
	signals_add_unless_ignored(&set, SIGTERM);
	signals_add_unless_ignored(&set, SIGHUP);
	/* With `| head`: undo the changes before SIGPIPE kills the process. */
	signals_add_unless_ignored(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, &s->mask_before);
	if (!s->fds) {
		say("out of memory");
		return EXIT_FAILED;
	}
	s->fds[0] = (struct pollfd){ signalfd(-1, &set, SFD_CLOEXEC), POLLIN, 0 };
	s->n_fds = 1;
	if (s->fds[0].fd < 0) {
		say("signalfd: %s", strerror(errno));
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < n; i++) {
		int fd = pidfd_open(pids[i], 0);

		if (fd < 0) {
			int code = errno == ESRCH ? EXIT_GONE : EXIT_FAILED;

			say("pid %d: %s", (int)pids[i],
			    errno == ESRCH ? "no such process" : strerror(errno));
			return code;
		}
		s->fds[s->n_fds++] = (struct pollfd){ fd, POLLIN, 0 };
	}
	return EXIT_DONE;
}

void session_close(struct session *s)
{
	for (size_t i = 0; i < s->n_fds; i++)
		if (s->fds[i].fd >= 0)
			close(s->fds[i].fd);
	free(s->fds);
	/* A pending SIGPIPE kills this process, without output, when it is unblocked. */
	if (s->has_sigpipe)
		raise(SIGPIPE);
	sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
}

/*
 * Read the pending signal. (Left pending, it would kill this process when signals are unblocked,
 * before the output is complete.) Return true if the signal ends the session: SIGPIPE always does,
 * and so does each signal if there is no command or it has ended. Otherwise pass the signal on to
 * the command, and return false. A signal from a terminal is not passed on, since the terminal has
 * sent it to the command, too. But pass it on if SENDS_ALL: the command did not exist when the
 * signal came.
 */
static bool take_signal(struct session *s, bool sends_all)
{
	struct interruptions interruptions = { 0 };
	struct signalfd_siginfo info = { 0 };

	while (read(s->fds[0].fd, &info, sizeof(info)) < 0 && is_interrupted(&interruptions))
		;
	if (info.ssi_signo == SIGPIPE)
		s->has_sigpipe = true;
	if (!s->workload || s->workload->has_ended || info.ssi_signo == SIGPIPE)
		return true;
	if (info.ssi_signo && (sends_all || info.ssi_code != SI_KERNEL))
		kill(s->workload->pid, (int)info.ssi_signo);
	return false;
}

int session_hold_workload(struct session *s, struct workload *workload, char *const *argv)
{
	sigset_t set;
	int code = workload_hold(workload, argv, &s->mask_before);

	if (code != EXIT_DONE)
		return code;
	s->workload = workload;
	s->fds[s->n_fds] = (struct pollfd){ workload->pidfd, POLLIN, 0 };
	sigemptyset(&set);
	for (size_t i = 0; i < N_FORWARDED; i++)
		signals_add_unless_ignored(&set, forwarded_signals[i]);
	signals_add_unless_ignored(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (signalfd(s->fds[0].fd, &set, 0) < 0) {
		say("signalfd: %s", strerror(errno));
		return EXIT_FAILED;
	}
	while (poll(s->fds, 1, 0) > 0)
		take_signal(s, true);
	return EXIT_DONE;
}

void session_await_workload(struct session *s)
{
	struct interruptions interruptions = { 0 };
	struct pollfd fds[2];

	if (!s->workload || !s->workload->has_started)
		return;
	fds[0] = s->fds[0];
	fds[1] = s->fds[s->n_fds];
	for (;;) {
		workload_reap(s->workload);
		if (s->workload->has_ended)
			return;
		if (poll(fds, 2, -1) < 0 && !is_interrupted(&interruptions))
			return;
		if (fds[0].revents)
			take_signal(s, false);
	}
}

/* Drop processes that have exited. Return true if none is left. */
static bool have_all_ended(struct session *s)
{
	bool ended = false;

	for (size_t i = 1; i < s->n_fds; i++) {
		if (s->fds[i].fd < 0 || !s->fds[i].revents)
			continue;
		close(s->fds[i].fd);
		s->fds[i].fd = -1; /* poll(2) ignores this entry */
		s->n_alive--;
		ended = true;
	}
	return ended && s->n_alive == 0;
}

enum ending session_wait(struct session *s, int64_t until_ns)
{
	struct interruptions interruptions = { 0 };

	for (;;) {
		int64_t left_ns = until_ns - session_now_ns();
		struct timespec timeout = { left_ns / 1000000000, left_ns % 1000000000 };
		int n;

		if (left_ns <= 0)
			return NOT_ENDED;
		n = ppoll(s->fds, s->n_fds + (s->workload != NULL), &timeout, NULL);
		if (n < 0 && !is_interrupted(&interruptions)) {
			s->err = -errno;
			say("waiting: %s", strerror(errno));
			return ENDED_BY_ERROR;
		}
		if (n > 0 && s->fds[0].revents && take_signal(s, false))
			return ENDED_BY_SIGNAL;
		if (n > 0 && s->workload && s->fds[s->n_fds].revents) {
			workload_reap(s->workload);
			return ENDED_WITH_COMMAND;
		}
		if (n > 0 && have_all_ended(s) && !s->workload)
			return ENDED_WITH_PROCESS;
	}
}

// SPDX-License-Identifier: MIT
/*
 * Counting from the command line: attach, wait for what comes first of time, signal and the
 * process's end, detach, print the last exact totals.
 *
 * Everything that can end the session is a descriptor, set up before the attach: no signal can cut
 * between attach and detach but SIGKILL, and then the kernel detaches.
 */
#include "tool/tool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "tool/count_output.h"

enum { PROGRESS_NS = 500 * 1000 * 1000 };

enum { FD_SIGNAL, FD_PROCESS, N_FDS };

enum ending { NOT_ENDED, ENDED_BY_TIME, ENDED_BY_SIGNAL, ENDED_WITH_PROCESS, ENDED_BY_ERROR };

struct session {
	struct options *options;
	struct ocp_counter *counter;
	struct pollfd fds[N_FDS];
	struct count_output output;
	uint64_t *hits;
	bool progress;
	int64_t start_ns; /* CLOCK_MONOTONIC, when attach had returned */
	int err;	  /* with ENDED_BY_ERROR */
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

/* A signal left pending would still kill us when it is unblocked, before the end of the output. */
static void take_signal(const struct session *s)
{
	struct signalfd_siginfo info;

	while (read(s->fds[FD_SIGNAL].fd, &info, sizeof(info)) < 0 && errno == EINTR)
		;
}

/* Wait until UNTIL_NS or something that ends the session. */
static enum ending wait_until(struct session *s, int64_t until_ns)
{
	for (;;) {
		int64_t left_ns = until_ns - now_ns();
		struct timespec timeout = { left_ns / 1000000000, left_ns % 1000000000 };
		int n;

		if (left_ns <= 0)
			return NOT_ENDED;
		n = ppoll(s->fds, N_FDS, &timeout, NULL);
		if (n < 0 && errno != EINTR) {
			s->err = -errno;
			say("waiting: %s", strerror(errno));
			return ENDED_BY_ERROR;
		}
		if (n > 0 && s->fds[FD_SIGNAL].revents) {
			take_signal(s);
			return ENDED_BY_SIGNAL;
		}
		if (n > 0 && s->fds[FD_PROCESS].revents)
			return ENDED_WITH_PROCESS;
	}
}

static enum ending tick(struct session *s, bool interval)
{
	int64_t at_ns = now_ns();

	s->err = ocp_counter_read(s->counter, s->hits);
	if (s->err)
		return ENDED_BY_ERROR;
	if (s->progress)
		count_output_progress(&s->output, at_ns - s->start_ns, s->hits);
	if (interval)
		count_output_interval(&s->output, at_ns - s->start_ns, s->hits);
	return NOT_ENDED;
}

static enum ending run_session(struct session *s)
{
	const struct options *o = s->options;
	int64_t end_ns = o->for_ns ? s->start_ns + o->for_ns : INT64_MAX;
	int64_t interval_ns = o->interval_ns ? s->start_ns + o->interval_ns : INT64_MAX;
	int64_t progress_ns = s->progress ? s->start_ns + PROGRESS_NS : INT64_MAX;

	for (;;) {
		int64_t next_ns = earlier(end_ns, earlier(interval_ns, progress_ns));
		enum ending ending = wait_until(s, next_ns);
		bool interval = next_ns == interval_ns;

		if (ending != NOT_ENDED)
			return ending;
		if (interval || next_ns == progress_ns)
			ending = tick(s, interval);
		if (ending != NOT_ENDED)
			return ending;
		/* Steps keep to their grid, so that late wake-ups do not add up. */
		while (interval_ns <= now_ns())
			interval_ns += o->interval_ns;
		while (progress_ns <= now_ns())
			progress_ns += PROGRESS_NS;
		if (next_ns == end_ns)
			return ENDED_BY_TIME;
	}
}

/* Attach, run, detach, print. */
static int count(struct session *s)
{
	enum ending ending;
	int64_t end_ns;
	int err = ocp_counter_attach(s->counter);

	if (err)
		return say_error(s->options->ctx, err);
	s->start_ns = now_ns();
	if (!s->options->quiet)
		say("counting %zu probes (%zu sites) of pid %d",
		    ocp_counter_probe_count(s->counter), ocp_counter_site_count(s->counter),
		    (int)s->options->pid);
	ending = run_session(s);
	end_ns = now_ns();
	count_output_end_progress(&s->output);
	err = ocp_counter_detach(s->counter);
	if (!err && ending != ENDED_BY_ERROR)
		err = ocp_counter_read(s->counter, s->hits);
	else if (ending == ENDED_BY_ERROR)
		err = s->err;
	if (err)
		return say_error(s->options->ctx, err);
	if (ending == ENDED_WITH_PROCESS && !s->options->quiet)
		say("pid %d has ended", (int)s->options->pid);
	count_output_total(&s->output, end_ns - s->start_ns, s->hits);
	return EXIT_DONE;
}

/* Take the signals that end the session, and the process's end, as descriptors. */
static int open_fds(struct session *s, sigset_t *mask_before)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, mask_before);
	s->fds[FD_SIGNAL] = (struct pollfd){ signalfd(-1, &set, SFD_CLOEXEC), POLLIN, 0 };
	if (s->fds[FD_SIGNAL].fd < 0) {
		say("signalfd: %s", strerror(errno));
		return EXIT_FAILED;
	}
	s->fds[FD_PROCESS] = (struct pollfd){ pidfd_open(s->options->pid, 0), POLLIN, 0 };
	if (s->fds[FD_PROCESS].fd < 0) {
		say("pid %d: %s", (int)s->options->pid, strerror(errno));
		return errno == ESRCH ? EXIT_GONE : EXIT_FAILED;
	}
	return EXIT_DONE;
}

int count_session(struct options *options, struct ocp_process *proc)
{
	struct session s = {
		.options = options,
		.fds = { { .fd = -1 }, { .fd = -1 } },
		.progress = isatty(STDERR_FILENO) && !options->quiet && !options->interval_ns,
	};
	sigset_t mask_before;
	int code, err;

	code = open_fds(&s, &mask_before);
	err = code == EXIT_DONE ? ocp_counter_open(proc, NULL, 0, &s.counter) : 0;
	if (err)
		code = say_error(options->ctx, err);
	if (code == EXIT_DONE) {
		s.hits = calloc(ocp_counter_probe_count(s.counter) + 1, sizeof(*s.hits));
		if (!s.hits || count_output_init(&s.output, s.counter, options->json) != 0) {
			say("out of memory");
			code = EXIT_FAILED;
		}
	}
	if (code == EXIT_DONE)
		code = count(&s);
	ocp_counter_free(s.counter);
	count_output_free(&s.output);
	free(s.hits);
	for (int i = 0; i < N_FDS; i++)
		if (s.fds[i].fd >= 0)
			close(s.fds[i].fd);
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
	return code;
}

// SPDX-License-Identifier: MIT
#include "cli/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupted.h"
#include "base/signals.h"
#include "cli/cli.h"

/* ---- a command ------------------------------------------------------------------------------ */

const int forwarded_signals[N_FORWARDED] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
					     SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH };

/* Run in the child: wait for the start, then execute the command or send the errno. */
__attribute__((noreturn)) static void run_child(int channel, char *const *argv,
						const sigset_t *mask)
{
	struct interruptions interruptions = { 0 };
	ssize_t n;
	char go;
	int error;

	sigprocmask(SIG_SETMASK, mask, NULL);
	while ((n = read(channel, &go, 1)) < 0 && is_interrupted(&interruptions))
		;
	if (n != 1)
		_exit(EXIT_FAILED);
	execvp(argv[0], argv);
	error = errno;
	(void)!write(channel, &error, sizeof(error));
	_exit(EXIT_NOT_FOUND);
}

/*
 * Fork a process that waits for workload_start(), then executes ARGV with the signal mask MASK.
 * Returns EXIT_DONE, or EXIT_FAILED after printing the error.
 */
static int workload_hold(struct workload *w, char *const *argv, const sigset_t *mask)
{
	int ends[2];

	*w = (struct workload){ .name = argv[0], .pidfd = -1, .channel = -1 };
	/* SIGCHLD may be inherited as ignored; then the kernel would not keep the exit status. */
	signal(SIGCHLD, SIG_DFL);
	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		say("%s: %s", argv[0], strerror(errno));
		return EXIT_FAILED;
	}
	w->channel = ends[0];
	w->pid = fork();
	if (w->pid == 0) {
		close(ends[0]);
		run_child(ends[1], argv, mask);
	}
	close(ends[1]);
	if (w->pid > 0)
		w->pidfd = pidfd_open(w->pid, 0);
	if (w->pid > 0 && w->pidfd >= 0)
		return EXIT_DONE;
	say("%s: %s", argv[0], strerror(errno));
	w->pid = w->pid > 0 ? w->pid : 0;
	return EXIT_FAILED;
}

int workload_start(struct workload *w)
{
	struct interruptions interruptions = { 0 };
	ssize_t n;
	int error;

	/*
	 * send() fails if a signal has already ended the child. That is no error here: the status
	 * of the child shows the signal.
	 */
	w->has_started = true;
	if (send(w->channel, "g", 1, MSG_NOSIGNAL) != 1)
		return EXIT_DONE;
	/* A successful exec closes the child's end of the channel. */
	while ((n = recv(w->channel, &error, sizeof(error), MSG_WAITALL)) < 0 &&
	       is_interrupted(&interruptions))
		;
	if (n != (ssize_t)sizeof(error))
		return EXIT_DONE;
	w->has_started = false;
	say("%s: %s", w->name, strerror(error));
	return error == ENOENT || error == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* Read the command's status if it has ended. Return false if the status is lost. */
static bool workload_reap(struct workload *w)
{
	struct pollfd ended = { w->pidfd, POLLIN, 0 };

	if (w->has_ended || poll(&ended, 1, 0) != 1)
		return true;
	w->has_ended = waitpid(w->pid, &w->status, 0) == w->pid;
	return w->has_ended;
}

void workload_close(struct workload *w)
{
	if (!w->pid)
		return;
	if (w->channel >= 0)
		close(w->channel);
	if (!w->has_started && !w->has_ended)
		waitpid(w->pid, NULL, 0);
	if (w->pidfd >= 0)
		close(w->pidfd);
	w->pid = 0;
}

int end_like(int status)
{
	const struct rlimit no_core = { 0, 0 };
	sigset_t set;

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fflush(stdout);
	setrlimit(RLIMIT_CORE, &no_core);
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

/* ---- opening and closing -------------------------------------------------------------------- */

int64_t session_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int session_open(struct session *s, const pid_t *pids, size_t n)
{
	/*
	 * SIGPIPE: if the output is a closed pipe, as with `| head`, the changes are undone before
	 * the signal kills the process.
	 */
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };

	*s = (struct session){ .fds = calloc(n + 2 + SESSION_MAX_FDS, sizeof(*s->fds)),
			       .n_alive = n };
	sigemptyset(&s->signals);
	sigprocmask(SIG_BLOCK, NULL, &s->mask_before);
	if (!s->fds) {
		say("out of memory");
		return EXIT_FAILED;
	}
	s->fds[0] = (struct pollfd){ -1, POLLIN, 0 };
	s->n_fds = 1;
	if (session_add_signals(s, signals, sizeof(signals) / sizeof(signals[0])) != EXIT_DONE)
		return EXIT_FAILED;
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

int session_add_signals(struct session *s, const int *signals, size_t n)
{
	for (size_t i = 0; i < n; i++)
		signals_add_unless_ignored(&s->signals, signals[i]);
	sigprocmask(SIG_BLOCK, &s->signals, NULL);
	s->fds[0].fd = signalfd(s->fds[0].fd, &s->signals, SFD_CLOEXEC);
	if (s->fds[0].fd >= 0)
		return EXIT_DONE;
	say("signalfd: %s", strerror(errno));
	return EXIT_FAILED;
}

void session_close(struct session *s)
{
	for (size_t i = 0; i < s->n_fds; i++)
		if (s->fds[i].fd >= 0)
			close(s->fds[i].fd);
	free(s->fds);
	/*
	 * If SIGPIPE was read, it has to kill this process now: raise it again. It is blocked, and
	 * kills the process, without output, when it is unblocked.
	 */
	if (s->has_sigpipe)
		raise(SIGPIPE);
	sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
}

/* ---- waiting -------------------------------------------------------------------------------- */

/*
 * Read the pending signal. (Left pending, it would kill this process when signals are unblocked,
 * before the output is complete.) Return true if the signal ends the session: SIGPIPE always does,
 * and any signal does if there is no command or the command has ended. Otherwise pass the signal on
 * to the command, and return false. Do not pass on a signal from a terminal, since the terminal has
 * sent it to the command, too. With SENDS_ALL, the signal came before the command existed: pass on
 * even a signal from a terminal.
 */
static bool take_signal(struct session *s, bool sends_all)
{
	struct interruptions interruptions = { 0 };
	struct signalfd_siginfo info = { 0 };

	while (read(s->fds[0].fd, &info, sizeof(info)) < 0 && is_interrupted(&interruptions))
		;
	s->signal = (int)info.ssi_signo;
	if (s->signal == SIGPIPE)
		s->has_sigpipe = true;
	if (!s->workload || s->workload->has_ended || s->signal == SIGPIPE)
		return true;
	if (s->signal && (sends_all || info.ssi_code != SI_KERNEL))
		kill(s->workload->pid, s->signal);
	return false;
}

int session_take_signal(struct session *s)
{
	s->signal = 0;
	if (poll(s->fds, 1, 0) > 0)
		take_signal(s, false);
	return s->signal;
}

/* Drop processes that have exited. Return true if this has dropped the last one. */
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

/*
 * Handle what poll(2) has reported about the descriptors of the session. Return how the session
 * ends, or NOT_ENDED.
 */
static enum ending take_reports(struct session *s)
{
	if (s->fds[0].revents && take_signal(s, false))
		return ENDED_BY_SIGNAL;
	if (s->workload && s->fds[s->n_fds].revents) {
		workload_reap(s->workload);
		return ENDED_WITH_COMMAND;
	}
	return have_all_ended(s) && !s->workload ? ENDED_WITH_PROCESS : NOT_ENDED;
}

/*
 * Wait until UNTIL_NS, until the session ends, or until there is an event on one of the N_MORE
 * descriptors that follow those of the session in `fds`. Check the descriptors at least once, even
 * if UNTIL_NS has passed.
 */
static enum ending wait_for_more(struct session *s, int64_t until_ns, size_t n_more)
{
	const size_t n_own = s->n_fds + (s->workload != NULL);
	struct interruptions interruptions = { 0 };

	for (;;) {
		const int64_t now_ns = session_now_ns();
		const int64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
		const struct timespec timeout = { left_ns / 1000000000, left_ns % 1000000000 };
		const int n = ppoll(s->fds, n_own + n_more, &timeout, NULL);
		enum ending ending;

		if (n < 0 && !is_interrupted(&interruptions)) {
			s->err = -errno;
			say("waiting: %s", strerror(errno));
			return ENDED_BY_ERROR;
		}
		ending = n > 0 ? take_reports(s) : NOT_ENDED;
		if (ending != NOT_ENDED || (n == 0 && !left_ns))
			return ending;
		for (size_t i = n_own; n > 0 && i < n_own + n_more; i++)
			if (s->fds[i].revents)
				return NOT_ENDED;
	}
}

enum ending session_wait(struct session *s, int64_t until_ns)
{
	return session_now_ns() < until_ns ? wait_for_more(s, until_ns, 0) : NOT_ENDED;
}

/*
 * From now on, pass signals on to the process of WORKLOAD, which runs already or waits for its
 * start.
 */
static int watch_workload(struct session *s, struct workload *workload)
{
	s->workload = workload;
	s->fds[s->n_fds] = (struct pollfd){ workload->pidfd, POLLIN, 0 };
	return session_add_signals(s, forwarded_signals, N_FORWARDED);
}

int session_hold_workload(struct session *s, struct workload *workload, char *const *argv)
{
	int code = workload_hold(workload, argv, &s->mask_before);

	if (code == EXIT_DONE)
		code = watch_workload(s, workload);
	while (code == EXIT_DONE && poll(s->fds, 1, 0) > 0)
		take_signal(s, true);
	return code;
}

int session_adopt_workload(struct session *s, struct workload *workload, pid_t pid)
{
	*workload = (struct workload){
		.pid = pid, .pidfd = pidfd_open(pid, 0), .channel = -1, .has_started = true
	};
	if (workload->pidfd >= 0)
		return watch_workload(s, workload);
	say("pid %d: %s", (int)pid, strerror(errno));
	return EXIT_FAILED;
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
		if (!workload_reap(s->workload) || s->workload->has_ended)
			return;
		if (poll(fds, 2, -1) < 0 && !is_interrupted(&interruptions))
			return;
		if (fds[0].revents)
			take_signal(s, false);
	}
}

/* ---- events --------------------------------------------------------------------------------- */

struct session_timer session_every(int64_t start_ns, int64_t period_ns,
				   enum ending (*fire)(void *data))
{
	return (struct session_timer){ .next_ns = period_ns ? start_ns + period_ns : INT64_MAX,
				       .period_ns = period_ns,
				       .fire = fire };
}

struct session_timer session_pause(int64_t period_ns, enum ending (*fire)(void *data))
{
	return (struct session_timer){ .next_ns = session_now_ns() + period_ns,
				       .period_ns = period_ns,
				       .is_pause = true,
				       .fire = fire };
}

/*
 * If TIMER is due, call its function. Set the next time of TIMER before the call or, with is_pause,
 * after the call. Return how the session ends, or NOT_ENDED.
 */
static enum ending fire_if_due(struct session_timer *timer, int64_t now_ns, void *data)
{
	enum ending ending;

	if (now_ns < timer->next_ns)
		return NOT_ENDED;
	if (!timer->fire)
		return ENDED_BY_TIME;
	if (!timer->period_ns)
		timer->next_ns = INT64_MAX;
	while (!timer->is_pause && timer->next_ns <= now_ns)
		timer->next_ns += timer->period_ns;
	ending = timer->fire(data);
	if (timer->is_pause)
		timer->next_ns = session_now_ns() + timer->period_ns;
	return ending;
}

enum ending session_run(struct session *s, const struct session_events *events)
{
	struct pollfd *more = s->fds + s->n_fds + (s->workload != NULL);
	enum ending ending = NOT_ENDED;

	for (size_t i = 0; i < events->n_fds; i++)
		more[i] = (struct pollfd){ events->fds[i].fd, events->fds[i].events, 0 };
	while (ending == NOT_ENDED) {
		int64_t next_ns = INT64_MAX;

		for (size_t i = 0; i < events->n_timers; i++)
			if (events->timers[i].next_ns < next_ns)
				next_ns = events->timers[i].next_ns;
		ending = wait_for_more(s, next_ns, events->n_fds);
		s->woke_ns = session_now_ns();
		for (size_t i = 0; ending == NOT_ENDED && i < events->n_fds; i++)
			if (more[i].revents)
				ending = events->fds[i].fire(events->data, more[i].revents);
		for (size_t i = 0; ending == NOT_ENDED && i < events->n_timers; i++)
			ending = fire_if_due(&events->timers[i], s->woke_ns, events->data);
	}
	return ending;
}

int workload_exit_code(const struct workload *workload, int code)
{
	if (!workload->has_ended || (code != EXIT_DONE && workload->status == 0))
		return code;
	return end_like(workload->status);
}

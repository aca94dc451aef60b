// SPDX-License-Identifier: MIT
#include "tool/workload.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "cli/cli.h"

const int forwarded_signals[N_FORWARDED] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
					     SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH };

/* The exit codes that shells use. */
enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

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

int workload_hold(struct workload *w, char *const *argv, const sigset_t *mask)
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
	 * If a signal has already ended the child, that is no error: the status of the child shows
	 * the signal.
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

void workload_reap(struct workload *w)
{
	struct pollfd ended = { w->pidfd, POLLIN, 0 };

	if (!w->has_ended && poll(&ended, 1, 0) == 1)
		w->has_ended = waitpid(w->pid, &w->status, 0) == w->pid;
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

// SPDX-License-Identifier: MIT
#include "cli/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base_name.h"
#include "base/clock.h"
#include "base/sanitize.h"

enum { PERIOD_NS = 500 * 1000 * 1000 };

static struct {
	pthread_mutex_t lock; /* protects the members that the thread changes: line_open, next_ns */
	pthread_cond_t ended;
	pthread_t thread;
	pid_t pid; /* the process with the thread, which its forked children do not have; 0: none */
	bool is_over, line_open;
	int64_t begin_ns, next_ns;
	char what[80];
} progress = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Write to stderr without stdio, whose lock a child that is forked meanwhile would inherit. */
static void write_line(const char *line, int bytes)
{
	if (write(STDERR_FILENO, line, (size_t)bytes) < 0)
		return;
}

static void erase_line(void)
{
	static const char erase[] = "\r\033[K";

	if (progress.line_open)
		write_line(erase, sizeof(erase) - 1);
	progress.line_open = false;
}

static void show_line(int64_t now_ns)
{
	char line[120];

	write_line(line, snprintf(line, sizeof(line), "\r\033[K%s: %.1f s", progress.what,
				  (double)(now_ns - progress.begin_ns) / 1e9));
	progress.line_open = true;
	progress.next_ns = now_ns + PERIOD_NS;
}

static void *show_progress_lines(void *data)
{
	(void)data;
	pthread_mutex_lock(&progress.lock);
	while (!progress.is_over) {
		const int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
		struct timespec until;

		if (now_ns >= progress.next_ns)
			show_line(now_ns);
		until.tv_sec = progress.next_ns / 1000000000;
		until.tv_nsec = progress.next_ns % 1000000000;
		pthread_cond_timedwait(&progress.ended, &progress.lock, &until);
	}
	erase_line();
	pthread_mutex_unlock(&progress.lock);
	return NULL;
}

/* Start the thread, with all signals blocked: signals are for the thread of the command. */
static bool start_thread(void)
{
	pthread_condattr_t attributes;
	sigset_t all, before;
	int err;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&progress.ended, &attributes);
	pthread_condattr_destroy(&attributes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&progress.thread, NULL, show_progress_lines, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return !err;
}

void progress_begin(const struct options *options, const char *text)
{
	const char *file = options->prog ? options->prog : options->exe;

	if (progress.pid || options->quiet || options->verbose || !isatty(STDERR_FILENO))
		return;
	if (file)
		/* The line must fit the terminal, since only one line can be erased. */
		snprintf(progress.what, sizeof(progress.what), "%s %.40s", text, base_name(file));
	else if (options->n_pids > 1)
		snprintf(progress.what, sizeof(progress.what), "%s %zu processes", text,
			 options->n_pids);
	else if (options->pid)
		snprintf(progress.what, sizeof(progress.what), "%s pid %d", text,
			 (int)options->pid);
	else
		snprintf(progress.what, sizeof(progress.what), "%s", text);
	make_one_line(progress.what);
	progress.is_over = progress.line_open = false;
	progress.begin_ns = clock_ns(CLOCK_MONOTONIC);
	progress.next_ns = progress.begin_ns + PERIOD_NS;
	if (start_thread())
		progress.pid = getpid();
}

void progress_end(void)
{
	if (progress.pid != getpid())
		return;
	pthread_mutex_lock(&progress.lock);
	progress.is_over = true;
	pthread_cond_signal(&progress.ended);
	pthread_mutex_unlock(&progress.lock);
	pthread_join(progress.thread, NULL);
	pthread_cond_destroy(&progress.ended);
	progress.pid = 0;
}

void progress_hide(void)
{
	if (progress.pid != getpid())
		return;
	pthread_mutex_lock(&progress.lock);
	erase_line();
	progress.next_ns = clock_ns(CLOCK_MONOTONIC) + PERIOD_NS;
	pthread_mutex_unlock(&progress.lock);
}

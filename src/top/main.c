// SPDX-License-Identifier: MIT
/*
 * `ocaml-probes top` shows the probes of running programs in the terminal.
 *
 * One loop waits for keys, signals and the clock. Signals are read from a descriptor, so that no
 * signal interrupts drawing, and every exit passes terminal_close().
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <curses.h>

#include "base/ctx.h"
#include "base/interrupted.h"
#include "base/signals.h"
#include "cli/cli.h"
#include "memprof/session.h"
#include "top/batch.h"
#include "top/terminal.h"
#include "top/top.h"

enum { FD_KEYS, FD_SIGNALS, FD_CLOCK, N_FDS };

struct loop {
	struct pollfd fds[N_FDS];
	sigset_t signals;
	struct top top;
	bool is_verbose, is_quiet;
};

/* ---- signals -------------------------------------------------------------------------------- */

static void block_signals(struct loop *loop)
{
	sigemptyset(&loop->signals);
	signals_add_unless_ignored(&loop->signals, SIGINT);
	signals_add_unless_ignored(&loop->signals, SIGTERM);
	signals_add_unless_ignored(&loop->signals, SIGHUP);
	signals_add_unless_ignored(&loop->signals, SIGTSTP);
	sigaddset(&loop->signals, SIGCONT);
	sigaddset(&loop->signals, SIGWINCH);
	sigprocmask(SIG_BLOCK, &loop->signals, NULL);
}

/* The signals that have arrived since the last call of take_signals(). */
struct arrived {
	bool end, stop, resume, resize;
};

static struct arrived take_signals(const struct loop *loop)
{
	struct arrived arrived = { 0 };
	struct signalfd_siginfo info;

	while (read(loop->fds[FD_SIGNALS].fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGTSTP:
			arrived.stop = true;
			break;
		case SIGCONT:
			arrived.resume = true;
			break;
		case SIGWINCH:
			arrived.resize = true;
			break;
		default:
			arrived.end = true;
			break;
		}
	}
	return arrived;
}

/* Stop as if SIGTSTP were not blocked. Return when the process is continued. */
static void stop_by_default(void)
{
	struct sigaction usual = { .sa_handler = SIG_DFL }, ours;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigaction(SIGTSTP, &usual, &ours);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGTSTP, &ours, NULL);
}

/*
 * Restore the terminal and stop. After being continued, resume when this process is in the
 * foreground of the terminal; until then, stop again. But first check for signals that end the
 * process: it may have been continued in the background only to end it.
 */
static void suspend(struct loop *loop)
{
	struct arrived arrived;

	terminal_leave();
	stop_by_default();
	arrived = take_signals(loop);
	while (!arrived.end && !terminal_is_foreground()) {
		/* Not SIGTTOU, which the kernel ignores in a process group without a shell. */
		raise(SIGSTOP);
		arrived = take_signals(loop);
	}
	if (arrived.end)
		loop->top.is_ending = true;
	else
		terminal_return();
}

static void handle_signals(struct loop *loop)
{
	const struct arrived arrived = take_signals(loop);

	if (arrived.end) {
		loop->top.is_ending = true;
	} else if (arrived.stop || (arrived.resume && !terminal_is_foreground())) {
		suspend(loop);
	} else if (arrived.resume) {
		/*
		 * SIGSTOP stops this process without notice, so another program may have changed
		 * the terminal.
		 */
		terminal_return();
	} else if (arrived.resize) {
		terminal_resize();
	}
}

/* ---- the loop ------------------------------------------------------------------------------- */

/*
 * Skip an escape sequence: a key pressed with Alt, or a key unknown to curses. Alt-e must not count
 * as "e". Skip only the sequence, since the user may have typed ahead. A sequence is ESC O and a
 * character; ESC [, parameters and a final letter (ECMA-48; the Linux console also sends ESC [ [
 * and a letter); or ESC and the key. Return whether there was a sequence.
 */
static bool skip_sequence(void)
{
	wint_t key;
	int kind = get_wch(&key);
	bool was_one;

	/* Alt pressed with a key that itself sends an escape sequence. */
	while (kind == OK && key == KEY_ESCAPE)
		kind = get_wch(&key);
	was_one = kind != ERR;
	if (kind == OK && key == 'O') {
		get_wch(&key);
	} else if (kind == OK && key == '[') {
		kind = get_wch(&key);
		if (kind == OK && key == '[')
			kind = get_wch(&key);
		while (kind == OK && key >= ' ' && key < '@')
			kind = get_wch(&key);
	}
	return was_one;
}

static int take_keys(struct loop *loop)
{
	wint_t key;
	int kind, err = 0;

	/* Limit the number of keys per turn, so that signals and the clock are handled, too. */
	for (int i = 0; i < 64 && !err && !loop->top.is_ending; i++) {
		kind = get_wch(&key);
		if (kind == ERR)
			break;
		if (kind == OK && key == KEY_ESCAPE && skip_sequence())
			continue;
		if (kind != KEY_CODE_YES || key != KEY_RESIZE)
			err = keys_take(&loop->top, key, kind == KEY_CODE_YES);
	}
	return err;
}

static int take_tick(struct loop *loop)
{
	uint64_t n;

	/* Several missed ticks count as one. */
	if (read(loop->fds[FD_CLOCK].fd, &n, sizeof(n)) != (ssize_t)sizeof(n))
		return 0;
	return top_tick(&loop->top);
}

/* Return 0, or the library's error code. */
static int run_loop(struct loop *loop)
{
	struct interruptions interruptions = { 0 };
	int err = 0;

	draw(&loop->top);
	while (!err && !loop->top.is_ending) {
		const int n = poll(loop->fds, N_FDS, loop->top.heap ? HEAP_VIEW_READ_MS : -1);

		if (n < 0) {
			if (is_interrupted(&interruptions))
				continue;
			return ctx_error(loop->top.ctx, -errno, "waiting: %s", strerror(errno));
		}
		err = heap_view_read(loop->top.heap);
		if (err || !n)
			continue;
		if (loop->fds[FD_SIGNALS].revents)
			handle_signals(loop);
		/* The terminal has been closed. */
		if (loop->fds[FD_KEYS].revents & (POLLHUP | POLLERR | POLLNVAL))
			loop->top.is_ending = true;
		if (loop->top.is_ending)
			break;
		if (loop->fds[FD_KEYS].revents)
			err = take_keys(loop);
		if (!err && loop->fds[FD_CLOCK].revents)
			err = take_tick(loop);
		if (!err && !loop->top.is_ending)
			draw(&loop->top);
	}
	return err;
}

static int open_fds(struct loop *loop)
{
	const struct timespec tick = { WATCH_TICK_MS / 1000, WATCH_TICK_MS % 1000 * 1000000L };
	const struct itimerspec every = { .it_interval = tick, .it_value = tick };
	int signals = signalfd(-1, &loop->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	int clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	loop->fds[FD_KEYS] = (struct pollfd){ STDIN_FILENO, POLLIN, 0 };
	loop->fds[FD_SIGNALS] = (struct pollfd){ signals, POLLIN, 0 };
	loop->fds[FD_CLOCK] = (struct pollfd){ clock, POLLIN, 0 };
	if (signals < 0 || clock < 0 || timerfd_settime(clock, 0, &every, NULL) != 0) {
		say("top: cannot set up signals or the clock: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

static void close_fds(struct loop *loop)
{
	for (size_t i = FD_SIGNALS; i < N_FDS; i++)
		if (loop->fds[i].fd >= 0)
			close(loop->fds[i].fd);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Show log messages in the message line while curses has the screen; otherwise print them. */
static void show_log_line(void *data, enum ocp_log_level level, const char *line)
{
	struct loop *loop = data;

	if (level == OCP_LOG_WARN ? loop->is_quiet : !loop->is_verbose)
		return;
	if (terminal_is_ours())
		top_message(&loop->top, "%s", line);
	else
		say("%s%s", level == OCP_LOG_WARN ? "warning: " : "", line);
}

static int run_on_screen(struct loop *loop)
{
	int code = terminal_open(), err = 0;

	if (code == EXIT_DONE) {
		draw_begin(&loop->top);
		err = run_loop(loop);
	}
	terminal_close();
	if (err)
		code = say_error(loop->top.ctx, err);
	if (loop->top.watch)
		switch_say_left_on(&loop->top);
	return code;
}

static struct top_options *top_options_of(struct options *options)
{
	static struct top_options own = { .memprof_rate = MEMPROF_USUAL_RATE };

	options->own = &own;
	return &own;
}

static int set_batch(const struct command *command, struct top_options *own, const char *value)
{
	char *end;

	errno = 0;
	own->screens = strtoul(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || !own->screens)
		return say_usage(command, "--batch '%s': not a number of screens", value);
	return EXIT_DONE;
}

/* Take --batch N or --memprof[=RATE]. */
static int set_top_option(const struct command *command, struct options *options, const char *name,
			  const char *value)
{
	struct top_options *own = top_options_of(options);

	if (strcmp(name, "batch") == 0)
		return set_batch(command, own, value);
	own->memprof = true;
	if (value && !memprof_rate_read(value, &own->memprof_rate))
		return say_usage(command, "--%s '%s': not a number from 1e-9 to 1", name, value);
	return EXIT_DONE;
}

static int check_top_usage(const struct command *command, struct options *options)
{
	int code;

	if (options->pid && options->exe)
		return say_usage(command, "-pid and --exe are mutually exclusive");
	if (top_options_of(options)->memprof && !options->pid && !options->exe)
		return say_usage(command, "--memprof requires -pid or --exe");
	if (top_options_of(options)->memprof && top_options_of(options)->screens)
		return say_usage(command, "--batch and --memprof are mutually exclusive");
	code = measure_options_check_program(command, options);
	if (code == EXIT_DONE)
		code = measure_options_count_all(options);
	if (code != EXIT_DONE)
		return code;
	measure_options_protect_all(options);
	return measure_options_check(command, options);
}

static int run_top(struct options *options);

static const struct command command_top = {
	.name = "top",
	.help = &help_top,
	.watches = true,
	.run = run_top,
	.set_own = set_top_option,
};

/* Print N screens. */
static int run_batch(struct loop *loop, const struct options *options, size_t n)
{
	int code = top_open(&loop->top, options), err;

	if (code != EXIT_DONE)
		return code;
	err = batch_run(&loop->top, n);
	return err ? say_error(loop->top.ctx, err) : EXIT_DONE;
}

/* Show the screen until the user ends it. */
static int run_live(struct loop *loop, const struct options *options)
{
	int code = terminal_check();

	if (code != EXIT_DONE)
		return code;
	block_signals(loop);
	code = top_open(&loop->top, options);
	if (code != EXIT_DONE)
		return code;
	code = open_fds(loop);
	if (code == EXIT_DONE)
		code = run_on_screen(loop);
	close_fds(loop);
	return code;
}

static int run_top(struct options *options)
{
	struct loop loop = { .is_verbose = options->verbose, .is_quiet = options->quiet };
	const size_t screens = top_options_of(options)->screens;
	int code = check_top_usage(&command_top, options);
	sigset_t before;

	if (code != EXIT_DONE)
		return code;
	/*
	 * No signal may end this process before top_close() has stopped the counting inside other
	 * processes.
	 */
	if (screens)
		batch_block_signals(&before);
	ocp_ctx_set_log(options->ctx, show_log_line, &loop, OCP_LOG_DEBUG);
	code = screens ? run_batch(&loop, options, screens) : run_live(&loop, options);
	switch_free(&loop.top);
	top_close(&loop.top);
	ocp_ctx_set_log(options->ctx, NULL, NULL, OCP_LOG_DEBUG);
	if (screens)
		sigprocmask(SIG_SETMASK, &before, NULL);
	return code;
}

int main(int argc, char **argv)
{
	/* Set only the encoding and character widths; numbers and messages stay in the C locale. */
	setlocale(LC_CTYPE, "");
	reserve_standard_descriptors();
	return flush_stdout(run_command(&command_top, argc, argv));
}

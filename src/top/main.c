// SPDX-License-Identifier: MIT
/*
 * `ocaml-probes top` shows the probes of running programs in the terminal.
 *
 * One session (cli/session.h) waits for keys, signals and the clock. Signals are read from a
 * descriptor, so that no signal interrupts drawing, and every exit passes terminal_close().
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>

#include "base/ctx.h"
#include "cli/cli.h"
#include "cli/session.h"
#include "memprof/session.h"
#include "top/top.h"
#include "top/terminal.h"

struct loop {
	struct session session;
	struct top top;
	int err;
	bool is_verbose, is_quiet;
};

/* ---- signals -------------------------------------------------------------------------------- */

/* The signals that have arrived. */
struct arrived {
	bool end, stop, resume, resize;
};

/*
 * Take the signals that have arrived. SIGNAL is a signal that was read already; 0: none was read.
 */
static struct arrived take_signals(struct loop *loop, int signal)
{
	struct arrived arrived = { 0 };

	if (!signal)
		signal = session_take_signal(&loop->session);
	for (; signal; signal = session_take_signal(&loop->session)) {
		switch (signal) {
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
 * Restore the terminal and stop. When the process is continued in the background, stop again,
 * unless a signal to end has arrived: the process may have been continued only for this signal.
 * Return to the terminal when the process is in the foreground.
 */
static void suspend(struct loop *loop)
{
	struct arrived arrived;

	terminal_leave();
	stop_by_default();
	arrived = take_signals(loop, 0);
	while (!arrived.end && !terminal_is_foreground()) {
		/*
		 * Not SIGTTOU: in a process group without a shell, the kernel discards that signal.
		 */
		raise(SIGSTOP);
		arrived = take_signals(loop, 0);
	}
	if (arrived.end)
		loop->top.is_ending = true;
	else
		terminal_return();
}

/* Handle SIGNAL and the other signals that have arrived. */
static void handle_signals(struct loop *loop, int signal)
{
	const struct arrived arrived = take_signals(loop, signal);

	if (arrived.end) {
		loop->top.is_ending = true;
	} else if (arrived.stop || (arrived.resume && !terminal_is_foreground())) {
		suspend(loop);
	} else if (arrived.resume) {
		/*
		 * Before a stop by SIGSTOP, this process cannot restore the terminal, and another
		 * program may have changed it since then. So set it up again.
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

	/* Several ESC in a row: Alt was pressed with a key that itself sends an escape sequence. */
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

/* Called after an event: draw the screen, unless ERR or is_ending ends the loop. */
static enum ending draw_after(struct loop *loop, int err)
{
	loop->err = err;
	if (err)
		return ENDED_BY_ERROR;
	if (loop->top.is_ending)
		return ENDED_BY_TIME;
	draw(&loop->top);
	return NOT_ENDED;
}

static enum ending on_keys(void *data, short revents)
{
	struct loop *loop = data;

	/* The terminal has been closed. */
	if (revents & (POLLHUP | POLLERR | POLLNVAL))
		loop->top.is_ending = true;
	return draw_after(loop, loop->top.is_ending ? 0 : take_keys(loop));
}

static enum ending on_tick(void *data)
{
	struct loop *loop = data;

	return draw_after(loop, top_tick(&loop->top));
}

static enum ending on_heap(void *data)
{
	struct loop *loop = data;

	loop->err = heap_view_read(loop->top.heap);
	return loop->err ? ENDED_BY_ERROR : NOT_ENDED;
}

/* Return 0, or the library's error code. */
static int run_loop(struct loop *loop)
{
	const int64_t ms = 1000000;
	const struct session_fd keys = { STDIN_FILENO, POLLIN, on_keys };
	struct session_timer timers[] = {
		session_every(session_now_ns(), WATCH_TICK_MS * ms, on_tick),
		session_pause(HEAP_VIEW_READ_MS * ms, on_heap),
	};
	const struct session_events events = { .fds = &keys,
					       .n_fds = 1,
					       .timers = timers,
					       .n_timers = loop->top.heap ? 2 : 1,
					       .data = loop };
	enum ending ending = NOT_ENDED;

	draw(&loop->top);
	while (!loop->top.is_ending && ending != ENDED_BY_ERROR) {
		ending = session_run(&loop->session, &events);
		if (ending != ENDED_BY_SIGNAL)
			continue;
		handle_signals(loop, loop->session.signal);
		if (!loop->top.is_ending)
			draw(&loop->top);
	}
	return loop->session.err ? loop->session.err : loop->err;
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

/* Take --batch N, --leaf or --memprof[=RATE]. */
static int set_top_option(const struct command *command, struct options *options, const char *name,
			  const char *value)
{
	struct top_options *own = top_options_of(options);

	if (strcmp(name, "batch") == 0)
		return set_batch(command, own, value);
	if (strcmp(name, "leaf") == 0) {
		own->by_leaf = true;
		return EXIT_DONE;
	}
	own->memprof = true;
	if (value && !memprof_rate_read(value, &own->memprof_rate))
		return say_usage(command, "--%s '%s': not a number from 1e-9 to 1", name, value);
	return EXIT_DONE;
}

static int check_top_usage(const struct command *command, struct options *options)
{
	int code;

	if (top_options_of(options)->by_leaf && !top_options_of(options)->memprof)
		return say_usage(command, "--leaf requires --memprof");
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

/* Show the screen until the user ends it. */
static int run_live(struct loop *loop, const struct options *options)
{
	static const int signals[] = { SIGTSTP, SIGCONT, SIGWINCH };
	int code = session_add_signals(&loop->session, signals, sizeof(signals) / sizeof(*signals));

	if (code == EXIT_DONE)
		code = top_open(&loop->top, options);
	return code == EXIT_DONE ? run_on_screen(loop) : code;
}

/* Print N screens. */
static int run_batch(struct loop *loop, const struct options *options, size_t n)
{
	int code = top_open(&loop->top, options), err;

	if (code != EXIT_DONE)
		return code;
	err = batch_run(&loop->top, &loop->session, n);
	return err ? say_error(loop->top.ctx, err) : EXIT_DONE;
}

static int run_top(struct options *options)
{
	struct loop loop = { .is_verbose = options->verbose, .is_quiet = options->quiet };
	const size_t screens = top_options_of(options)->screens;
	int code = check_top_usage(&command_top, options);

	if (code == EXIT_DONE && !screens)
		code = terminal_check();
	if (code != EXIT_DONE)
		return code;
	ocp_ctx_set_log(options->ctx, show_log_line, &loop, OCP_LOG_DEBUG);
	/*
	 * No signal may end this process before top_close() has stopped the counting inside other
	 * processes.
	 */
	code = session_open(&loop.session, NULL, 0);
	if (code == EXIT_DONE)
		code = screens ? run_batch(&loop, options, screens) : run_live(&loop, options);
	switch_free(&loop.top);
	top_close(&loop.top);
	ocp_ctx_set_log(options->ctx, NULL, NULL, OCP_LOG_DEBUG);
	session_close(&loop.session);
	return code;
}

int main(int argc, char **argv)
{
	/* Set only the encoding and character widths; numbers and messages stay in the C locale. */
	setlocale(LC_CTYPE, "");
	reserve_standard_descriptors();
	return flush_stdout(run_command(&command_top, argc, argv));
}

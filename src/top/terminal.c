// SPDX-License-Identifier: MIT
/*
 * Take and restore the terminal. curses would handle SIGINT, SIGTERM and SIGTSTP itself. Instead,
 * the session blocks these signals and reads them from a descriptor, and main.c calls
 * terminal_leave() or terminal_close(). After a crash, a signal handler restores the terminal with
 * async-signal-safe functions and with strings that were looked up in advance.
 */
#include "top/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <termios.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>

#include "cli/cli.h"

enum {
	ESCAPE_MS = 100,
	LEAVING_BYTES = 256,
	/*
	 * Limits of the size of the screen: curses keeps several copies of the screen, with 28
	 * bytes for a character.
	 */
	MOST_LINES = 500,
	MOST_COLUMNS = 2000,
};

static struct {
	SCREEN *screen;
	bool is_ours;
	struct termios before;
	char leaving[LEAVING_BYTES]; /* the strings that restore the terminal after a crash */
	size_t n_leaving;
	/*
	 * the stack for the signal handler, since the crash may be an overflow of the normal stack
	 */
	void *stack;
} terminal;

static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT };

#define N_CRASHES (sizeof(crashes) / sizeof(crashes[0]))

/* ---- checks --------------------------------------------------------------------------------- */

static int refuse_terminal(const char *why, const char *operand)
{
	say("top: %s%s", why, operand);
	fputs("hint: `ocaml-probes attach --count --interval 1s` prints lines instead\n", stderr);
	return EXIT_USAGE;
}

static bool can(const char *capability)
{
	const char *value = tigetstr(capability);

	return value && value != (char *)-1;
}

/*
 * Unset the variables that name terminal descriptions if this program has more rights than its
 * user. In a set-user-ID program, curses ignores these variables itself. But file capabilities do
 * not change user IDs, so curses would read a description that the user has written.
 */
static void forget_descriptions(void)
{
	static const char *const names[] = { "TERMINFO", "TERMINFO_DIRS", "TERMCAP", "TERMPATH",
					     "HOME" };

	if (!getauxval(AT_SECURE))
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

/*
 * Check the terminal whose description setupterm() has found. The size of the terminal comes from
 * the kernel, or from the variables LINES and COLUMNS.
 */
static int check_screen(const char *term)
{
	const int height = tigetnum("lines"), width = tigetnum("cols");
	char size[64];

	if (!can("cup") || !can("clear"))
		return refuse_terminal("this terminal cannot position the cursor: TERM is ", term);
	if (height > MOST_LINES || width > MOST_COLUMNS) {
		snprintf(size, sizeof(size), "%dx%d, more than %dx%d", width, height, MOST_COLUMNS,
			 MOST_LINES);
		return refuse_terminal("this terminal is too large: ", size);
	}
	return EXIT_DONE;
}

int terminal_check(void)
{
	const char *term = getenv("TERM");
	int code, found;

	forget_descriptions();
	if (!isatty(STDIN_FILENO))
		return refuse_terminal("standard input is not a terminal", "");
	if (!isatty(STDOUT_FILENO))
		return refuse_terminal("standard output is not a terminal", "");
	if (!term || !*term)
		return refuse_terminal("TERM is not set", "");
	if (strcmp(term, "dumb") == 0)
		return refuse_terminal("this terminal cannot position the cursor: TERM is dumb",
				       "");
	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return refuse_terminal("unknown terminal type: TERM is ", term);
	code = check_screen(term);
	del_curterm(cur_term);
	return code;
}

/* ---- crashes -------------------------------------------------------------------------------- */

static void restore_at_crash(int signal)
{
	const char *at = terminal.leaving;
	size_t left = terminal.is_ours ? terminal.n_leaving : 0;

	while (left) {
		ssize_t n = write(STDOUT_FILENO, at, left);

		if (n <= 0)
			break;
		at += n;
		left -= (size_t)n;
	}
	if (terminal.is_ours)
		tcsetattr(STDOUT_FILENO, TCSANOW, &terminal.before);
	/* SA_RESETHAND has removed this handler, so the signal now has its default action. */
	raise(signal);
}

/* Append the string of CAPABILITY to `leaving`, without padding such as "$<5>". */
static void add_leaving(const char *capability)
{
	const char *text = tigetstr(capability);

	if (!text || text == (char *)-1)
		return;
	while (*text && terminal.n_leaving < sizeof(terminal.leaving)) {
		if (strncmp(text, "$<", 2) == 0 && strchr(text, '>'))
			text = strchr(text, '>') + 1;
		else
			terminal.leaving[terminal.n_leaving++] = *text++;
	}
}

static void prepare_for_crash(void)
{
	const stack_t stack = { .ss_sp = terminal.stack, .ss_size = (size_t)SIGSTKSZ };
	struct sigaction action = { .sa_handler = restore_at_crash,
				    .sa_flags = SA_RESETHAND | SA_ONSTACK };

	add_leaving("rmkx");
	add_leaving("sgr0");
	add_leaving("cnorm");
	add_leaving("rmcup");
	if (!stack.ss_sp || sigaltstack(&stack, NULL) != 0)
		action.sa_flags &= ~SA_ONSTACK;
	for (size_t i = 0; i < N_CRASHES; i++)
		sigaction(crashes[i], &action, NULL);
}

/* ---- open and close ------------------------------------------------------------------------- */

static void set_modes(void)
{
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
}

int terminal_open(void)
{
	if (tcgetattr(STDOUT_FILENO, &terminal.before) != 0) {
		say("top: cannot read the terminal settings: %s", strerror(errno));
		return EXIT_FAILED;
	}
	terminal.stack = malloc((size_t)SIGSTKSZ);
	terminal.screen = newterm(NULL, stdout, stdin);
	if (!terminal.screen) {
		say("top: cannot open the terminal");
		return EXIT_FAILED;
	}
	terminal.is_ours = true;
	prepare_for_crash();
	set_modes();
	return EXIT_DONE;
}

void terminal_leave(void)
{
	if (!terminal.is_ours)
		return;
	endwin();
	terminal.is_ours = false;
}

void terminal_return(void)
{
	terminal.is_ours = true;
	reset_prog_mode();
	curs_set(0);
	terminal_resize();
	clearok(stdscr, TRUE);
	refresh();
}

void terminal_close(void)
{
	terminal_leave();
	if (terminal.screen) {
		for (size_t i = 0; i < N_CRASHES; i++)
			signal(crashes[i], SIG_DFL);
		delscreen(terminal.screen);
	}
	sigaltstack(&(const stack_t){ .ss_flags = SS_DISABLE }, NULL);
	free(terminal.stack);
	terminal.screen = NULL;
	terminal.stack = NULL;
}

bool terminal_is_ours(void)
{
	return terminal.is_ours;
}

bool terminal_is_foreground(void)
{
	const pid_t group = tcgetpgrp(STDOUT_FILENO);

	return group < 0 || group == getpgrp();
}

void terminal_resize(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
		resizeterm(MIN(size.ws_row, MOST_LINES), MIN(size.ws_col, MOST_COLUMNS));
}

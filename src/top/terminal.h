/* SPDX-License-Identifier: MIT */
/*
 * The terminal. curses changes its settings, and every exit restores them: the normal end, a
 * suspension, a crash. (After SIGKILL, use `reset`.)
 */
#ifndef TOP_TERMINAL_H
#define TOP_TERMINAL_H

#include <stdbool.h>

enum { KEY_ESCAPE = 27 }; /* curses has no name for this key */

/*
 * Check that the terminal can show this program, without changing the terminal. Return EXIT_DONE,
 * or another code after printing the error.
 */
int terminal_check(void);

/* Let curses take the terminal. Return EXIT_DONE, or another code after printing the error. */
int terminal_open(void);
/* Restore the terminal, if curses has it, and free what terminal_open() has allocated. */
void terminal_close(void);

/*
 * terminal_leave() restores the terminal for other programs; terminal_return() lets curses take it
 * again. terminal_is_ours() returns true if curses has the terminal.
 */
void terminal_leave(void);
void terminal_return(void);
bool terminal_is_ours(void);

/*
 * Return true if this process is in the foreground. In the background, changing the terminal would
 * stop it.
 */
bool terminal_is_foreground(void);

/* Read the size of the terminal, and use it for drawing from now on. */
void terminal_resize(void);

#endif

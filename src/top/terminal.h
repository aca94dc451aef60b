/* SPDX-License-Identifier: MIT */
/*
 * The terminal. curses takes it, and every exit restores it: the end, a suspension, a crash.
 * (After SIGKILL use `reset`.)
 */
#ifndef TOP_TERMINAL_H
#define TOP_TERMINAL_H

#include <stdbool.h>

enum { KEY_ESCAPE = 27 }; /* curses has no name for it */

/*
 * Check that the terminal can show this program, without changing it. Returns EXIT_DONE, or
 * another code after printing the error.
 */
int terminal_check(void);

/* Take the terminal. Returns EXIT_DONE, or another code after printing the error. */
int terminal_open(void);
/* Restore the terminal. Does nothing if it is not taken. */
void terminal_close(void);

/* Leave the terminal to other programs; return to it. */
void terminal_leave(void);
void terminal_return(void);
bool terminal_is_ours(void); /* open, and not left */

/* Are we in the foreground, where changing the terminal does not stop the process? */
bool terminal_is_foreground(void);

/* Read the terminal's size, and draw for it from now on. */
void terminal_resize(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The terminal. curses changes the settings of the terminal. They are restored at the normal end,
 * at a suspension and at a crash. (After SIGKILL, the user can run `reset`.)
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
 * terminal_leave() restores the terminal for other programs; terminal_return() lets curses take the
 * terminal again. terminal_is_ours() returns true if curses has the terminal.
 */
void terminal_leave(void);
void terminal_return(void);
bool terminal_is_ours(void);

/*
 * Return true if this process is in the foreground. A process in the background must not change the
 * terminal: the kernel would stop the process.
 */
bool terminal_is_foreground(void);

/* Read the size of the terminal, and use it for drawing from now on. */
void terminal_resize(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The terminal: taken by curses, and given back as it was on every way out: the end, a suspension,
 * a crash. (After SIGKILL there is `reset`.)
 */
#ifndef TOP_TERMINAL_H
#define TOP_TERMINAL_H

#include <stdbool.h>

enum { KEY_ESCAPE = 27 }; /* as curses has no name for it */

/*
 * Can this program be shown here? Nothing is touched. Returns EXIT_DONE, or another code after
 * having said why not.
 */
int terminal_check(void);

/* Take the terminal. Returns EXIT_DONE, or another code after having said why not. */
int terminal_open(void);
/* Give it back; may be called when it is not taken. */
void terminal_close(void);

/* Between these two others may use it. */
void terminal_leave(void);
void terminal_return(void);
bool terminal_is_ours(void); /* open, and not left */

/* Are we in the foreground, where changing the terminal does not stop us? */
bool terminal_is_foreground(void);

/* Ask it for its size, and draw for that from now on. */
void terminal_resize(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Progress of work that ends without output for some time, such as reading a large program. If the
 * work takes longer than half a second, a line on the terminal says what is done and for how long.
 * A thread writes the line, since the work is not divided into steps. There is one such line.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/cli.h"

/*
 * Begin work that TEXT names, such as "reading", on the program or the process that OPTIONS name.
 * If OPTIONS name none, TEXT is all of the line.
 * Do nothing if stderr is not a terminal, with -quiet or -verbose, or if this work has begun
 * already.
 */
void progress_begin(const struct options *options, const char *text);
/* End the work: erase the line. Call this before anything is printed; it may be called again. */
void progress_end(void);
/* Erase the line before a message; the next line follows half a second later. */
void progress_hide(void);

#endif

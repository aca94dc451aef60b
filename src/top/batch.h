/* SPDX-License-Identifier: MIT */
/* `top --batch N`: screens as plain text on stdout; ocaml-probes-top(1) defines the format. */
#ifndef TOP_BATCH_H
#define TOP_BATCH_H

#include <signal.h>

#include "top/top.h"

/*
 * Block SIGPIPE and the signals that end the run. Call this before anything is measured. Store the
 * previous mask in BEFORE.
 */
void batch_block_signals(sigset_t *before);

/*
 * Print N screens, one per tick, beginning when there are rates. SIGINT, SIGTERM and SIGHUP end the
 * run early. Return 0, or the library's error code.
 */
int batch_run(struct top *top, size_t n);

#endif

/* SPDX-License-Identifier: MIT */
/* `top --batch N`: screens as plain text on stdout; ocaml-probes-top(1) defines the format. */
#ifndef TOP_BATCH_H
#define TOP_BATCH_H

#include <signal.h>

#include "top/top.h"

/* Block the signals that end it, and SIGPIPE, before anything is measured. BEFORE is the mask until now. */
void batch_block_signals(sigset_t *before);

/*
 * Print N screens, one per tick, as soon as there are rates. SIGINT, SIGTERM and SIGHUP end it
 * early. Returns 0, or the library's error code.
 */
int batch_run(struct top *top, size_t n);

#endif

/* SPDX-License-Identifier: MIT */
/* `top --batch N`: screens as plain text on stdout; ocaml-probes-top(1) defines the format. */
#ifndef TOP_BATCH_H
#define TOP_BATCH_H

#include "cli/session.h"
#include "top/top.h"

/*
 * Print N screens, one per tick, beginning when there are rates. A signal of SESSION ends the run
 * early. Return 0, or the library's error code.
 */
int batch_run(struct top *top, struct session *session, size_t n);

#endif

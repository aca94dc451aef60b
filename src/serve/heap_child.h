/* SPDX-License-Identifier: MIT */
/*
 * The process that runs Gc.Memprof in the measured programs, `probes-memprof`: it reads their events all
 * the time, and answers with what they have so far. It has the rights of the measuring process, of which
 * it is a child. The orders are those of serve/profile_taker.h; its news are serve/heap_figures.h.
 */
#ifndef SERVE_HEAP_CHILD_H
#define SERVE_HEAP_CHILD_H

#include <sys/types.h>
#include "base/ctx.h"

/*
 * Be the process, until the other end of FD is closed or PARENT ends; then the profiles end. RATE: samples
 * per word. Returns an exit status.
 */
int heap_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * `probes-memprof`, the process that runs Gc.Memprof in the measured programs. It reads the events
 * of Gc.Memprof all the time, and answers requests with the profile so far. It is a child of the
 * measuring process, and has the same rights. It executes the orders of serve/profile_taker.h, and
 * sends the messages of serve/heap_figures.h.
 */
#ifndef SERVE_HEAP_CHILD_H
#define SERVE_HEAP_CHILD_H

#include <sys/types.h>
#include "base/ctx.h"

/*
 * Run as `probes-memprof` until the other end of FD is closed or PARENT ends. Then Gc.Memprof stops
 * in the measured programs. RATE: samples per word. Return an exit status.
 */
int heap_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);

#endif

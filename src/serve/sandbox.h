/* SPDX-License-Identifier: MIT */
/* What the process that reads what strangers send may still do; see base/confine.h, too. */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H

#include "base/ctx.h"

/*
 * From now on only these system calls: what accepts, reads, writes and closes connections and
 * descriptors that are open, what waits, tells the time, and asks for memory. All others fail with
 * EPERM: nothing is opened or run, no socket is made, no process is looked at or gets a signal.
 */
int sandbox_filter_syscalls(struct ocp_ctx *ctx);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The system call filter of the HTTP process, which reads input from clients. See also
 * base/confine.h.
 */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H

#include "base/ctx.h"

/*
 * Allow only these system calls from now on: to accept, read, write and close connections and open
 * descriptors, to wait, to read the clock, and to allocate memory. All others fail with EPERM: the
 * process cannot open files, execute programs, create sockets, read other processes or send
 * signals.
 */
int sandbox_filter_syscalls(struct ocp_ctx *ctx);

#endif

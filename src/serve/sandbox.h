/* SPDX-License-Identifier: MIT */
/*
 * The filter of system calls for the HTTP process, which reads input from clients. See also
 * base/confine.h.
 */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H

#include "base/ctx.h"

/*
 * From now on, allow only the system calls that the HTTP process needs, for example to accept
 * connections, to read, write and close open descriptors, to wait, to read the clock, and to
 * allocate memory. All other system calls fail with EPERM: the process cannot open files, execute
 * programs, create sockets, read other processes or send signals. A system call of another
 * architecture, such as i386, kills the process.
 */
int sandbox_filter_syscalls(struct ocp_ctx *ctx);

#endif

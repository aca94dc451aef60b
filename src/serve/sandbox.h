/* SPDX-License-Identifier: MIT */
/*
 * The filter of system calls for the HTTP process, which reads input from clients. See also
 * base/confine.h.
 */
#ifndef SERVE_SANDBOX_H
#define SERVE_SANDBOX_H

#include "base/ctx.h"

/*
 * From now on, allow only system calls that accept connections, that read, write and close
 * descriptors which are already open, that wait, that read the clock, and that allocate memory. All
 * other system calls fail with EPERM: the process cannot open files, execute programs, create
 * sockets, read other processes or send signals. A system call of another architecture, such as
 * i386, kills the process.
 */
int sandbox_filter_syscalls(struct ocp_ctx *ctx);

#endif

/* SPDX-License-Identifier: MIT */
/* Instructions of a process that its thread can be sent to. */
#ifndef INSIDE_GADGETS_H
#define INSIDE_GADGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/* Addresses in the process. */
struct gadgets {
	uint64_t syscall_ret; /* syscall; ret */
	uint64_t restorer;    /* mov $15,%rax; syscall: rt_sigreturn(2) */
};

/*
 * Find both in the executable mappings of PID, which may run. -ENOTSUP with a message if one is
 * missing.
 */
int gadgets_find(struct ocp_ctx *ctx, pid_t pid, struct gadgets *gadgets);

/*
 * Is thread TID of PID, which is stopped, about to make a system call for another tool? Its next instruction
 * is `syscall; ret`, and a restorer is what it returns to. A tool that was killed leaves a thread like that
 * until it gets a CPU.
 */
bool gadgets_are_next(pid_t pid, pid_t tid);

/* Are they still there? The process is stopped. */
bool gadgets_are_there(pid_t pid, const struct gadgets *gadgets);

#endif

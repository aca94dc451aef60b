/* SPDX-License-Identifier: MIT */
/*
 * Gadgets: instruction sequences in the code of a process. A tracer sets the instruction pointer of
 * a stopped thread to one of them, to make the thread execute it.
 */
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
 * Find both gadgets in the executable mappings of PID, which need not be stopped. Return -ENOTSUP
 * with a message if one is missing.
 */
int gadgets_find(struct ocp_ctx *ctx, pid_t pid, struct gadgets *gadgets);

/*
 * Return true if the stopped thread TID of PID is about to make a system call for another tool: its
 * next instruction is `syscall; ret`, and that `ret` returns to a restorer. A killed tool leaves a
 * thread in this state until the thread gets a CPU.
 */
bool gadgets_are_next(pid_t pid, pid_t tid);

/* Return true if both gadgets are still in the memory of PID, which must be stopped. */
bool gadgets_are_there(pid_t pid, const struct gadgets *gadgets);

#endif

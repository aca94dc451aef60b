/* SPDX-License-Identifier: MIT */
/*
 * System calls and short routines that a stopped process carries out for us. The process survives
 * if this tool is killed at any moment: a signal frame on the stack of the thread that makes the
 * call takes this thread back to its state before the call.
 */
#ifndef CHANGE_INSIDE_REMOTE_H
#define CHANGE_INSIDE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

struct maps;
struct patcher;
struct remote;
struct tracee;

/*
 * Prepare remote calls while PID runs: find the gadgets. Returns -ENOTSUP, with a message, if
 * remote calls in PID are impossible. After an exec of PID the plan is useless: remote_begin()
 * fails.
 */
struct remote_plan;
int remote_plan_make(struct ocp_ctx *ctx, pid_t pid, struct remote_plan **out);
void remote_plan_free(struct remote_plan *plan);

/*
 * Choose a thread of TRACEE, whose threads are all stopped, and put the signal frame on its stack.
 * MAPS must have been read in this stop; they show where the stacks are. Returns -EAGAIN, with
 * nothing changed, if no thread can be used in this stop; another stop may find a usable thread.
 *
 * Call this and all functions below from the tracing thread: in the work of tracee_run_stopped(),
 * which must return the error of the first call that fails.
 */
int remote_begin(const struct remote_plan *plan, struct tracee *tracee, struct patcher *patcher,
		 const struct maps *maps, struct remote **out);

/*
 * Return the address of REMOTE_SCRATCH_BYTES unused bytes on the stack of the chosen thread, for
 * the arguments of calls. Write to these bytes with patcher_write_unused().
 */
enum { REMOTE_SCRATCH_BYTES = 1024 };
uint64_t remote_scratch(const struct remote *remote);

/*
 * Make the system call NUMBER with ARGS. *RESULT is what the kernel returns, which may be a -errno.
 * The function itself returns an error if the call was not carried out; after -ETIMEDOUT the call
 * may still be running.
 */
int remote_syscall(struct remote *remote, long number, const uint64_t args[6], int64_t *result);

/*
 * Run the code at ADDR, with ARG in rdi and the address of a `syscall; ret` in rsi. The code may
 * make system calls and change all registers. It must end by jumping to that `syscall; ret`, with
 * rsp as at its start. *RESULT is rbx at the end.
 */
int remote_run(struct remote *remote, uint64_t addr, uint64_t arg, uint64_t *result);

/*
 * Restore the registers of the thread, so that it can be released as if nothing had happened. Frees
 * REMOTE, which may be NULL, also on failure.
 */
int remote_end(struct remote *remote);

/*
 * Return true if the stopped thread TID of PID is about to make a system call for another tool: its
 * next instruction is `syscall; ret`, and that `ret` returns to a restorer. A killed tool leaves a
 * thread in this state until the thread gets a CPU.
 */
bool remote_call_is_next(pid_t pid, pid_t tid);

#endif

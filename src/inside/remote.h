/* SPDX-License-Identifier: MIT */
/*
 * System calls and short routines that a stopped process carries out for us. The process survives our
 * death at any moment: a signal frame on its stack takes the thread back to where it was.
 */
#ifndef INSIDE_REMOTE_H
#define INSIDE_REMOTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "tracee/maps.h"
#include "tracee/patch.h"
#include "tracee/tracee.h"

struct remote;

/*
 * What is found while the process runs: the gadgets. -ENOTSUP, and one sentence, if it cannot be
 * done. An exec makes the plan useless: remote_begin() then fails.
 */
struct remote_plan;
int remote_plan_make(struct ocp_ctx *ctx, pid_t pid, struct remote_plan **out);
void remote_plan_free(struct remote_plan *plan);

/*
 * Choose a thread of TRACEE, whose threads are all stopped, and put the signal frame on its stack, which
 * MAPS, read in this stop, tell. To
 * be called, like all that follow, by the tracing thread: in the work of tracee_run_stopped(), which
 * must end with the error of the first call that fails. -EAGAIN: no thread can do it now; another
 * one may after another stop. Nothing is changed then.
 */
int remote_begin(const struct remote_plan *plan, struct tracee *tracee, struct patcher *patcher,
		 const struct maps *maps, struct remote **out);

/*
 * REMOTE_SCRATCH_BYTES of the thread's stack that nobody uses, for the arguments of calls. Write with
 * patcher_write_unused().
 */
enum { REMOTE_SCRATCH_BYTES = 1024 };
uint64_t remote_scratch(const struct remote *remote);

/*
 * *RESULT is what the kernel returned, -errno included. An error is returned if it was not carried
 * out. -ETIMEDOUT: it may still be under way.
 */
int remote_syscall(struct remote *remote, long number, const uint64_t args[6], int64_t *result);

/*
 * Run the code at ADDR, with ARG in rdi and the address of a `syscall; ret` in rsi. It may make system calls
 * and change all registers. It must end with a system call there, with rsp as it was. *RESULT is rbx then.
 */
int remote_run(struct remote *remote, uint64_t addr, uint64_t arg, uint64_t *result);

/*
 * Put the registers back: the thread can be released as if nothing had happened. Frees REMOTE, which
 * may be NULL, also on failure.
 */
int remote_end(struct remote *remote);

#endif

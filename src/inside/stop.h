/* SPDX-License-Identifier: MIT */
/* What attach and detach do to a process, and what they need for it. */
#ifndef INSIDE_STOP_H
#define INSIDE_STOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "inside/block.h"
#include "inside/held.h"
#include "inside/remote.h"
#include "tracee/maps.h"
#include "tracee/memory.h"
#include "tracee/patch.h"
#include "tracee/tracee.h"

/* Access to a process, for several stops. */
struct stop {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct memory *memory;
	struct patcher *patcher;
	struct tracee *tracee;
	struct remote_plan *plan; /* NULL: nothing can be called in this process */
	struct maps maps;	  /* read in the stop */
	struct remote *remote;	  /* begun when it is first needed */
	bool is_busy;		  /* with a call or routine of a killed tool: nothing was done */
};

/* Without a plan: see stop_plan(). */
int stop_open(struct ocp_ctx *ctx, pid_t pid, struct stop *stop);
void stop_close(struct stop *stop);

/*
 * Stop the process and do WORK(ARG), with the maps of the process as they are then. Ends the remote calls
 * that it began. Waits until the process has done what a killed tool had it begin; -EBUSY if that does not
 * end, since a debugger or SIGSTOP has stopped it.
 */
int stop_run(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg);

/*
 * The same in the work of tracee_run_stopped(), with all of STOP but maps and remote set. Does not wait:
 * -EBUSY, with is_busy.
 */
int stop_work(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg);

/* -ESRCH if the process has ended, ends at the moment, or runs another program. */
int stop_check_alive(const struct stop *stop);

/* For WORK: begin the remote calls if that has not been done. */
int stop_begin_calls(struct stop *stop);

/* A system call, by its name for the message. *RESULT is not an error. Returns -errno. */
int stop_call(struct stop *stop, const char *name, long number, const uint64_t args[6],
	      uint64_t *result);

/* Unmap START to END. The caller knows that no thread can be there. */
int stop_unmap(struct stop *stop, uint64_t start, uint64_t end);

/* May a thread come back to the code of the block with this HEADER? See threads_may_use(). */
bool stop_may_use(const struct stop *stop, const struct block_header *header);

/* Unmap its parts, of which the caller knows the same. */
int stop_unmap_block(struct stop *stop, const struct block_header *header);

/* Unmap what killed tools left: orphans (blocks.h), images of stores; close descriptors. */
void stop_remove_orphans(struct stop *stop);

#endif

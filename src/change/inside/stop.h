/* SPDX-License-Identifier: MIT */
/*
 * Stop a process and make remote calls in it. Attach and detach write to the sites only while
 * stop_run() has stopped the process.
 */
#ifndef CHANGE_INSIDE_STOP_H
#define CHANGE_INSIDE_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "change/inside/block.h"
#include "change/inside/remote.h"
#include "look/maps.h"
#include "look/memory.h"
#include "change/stop/patch.h"
#include "change/stop/tracee.h"

/* Access to a process, for several stops. */
struct stop {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct memory *memory;
	struct patcher *patcher;
	struct tracee *tracee;
	bool is_held;		  /* the tracee belongs to the caller of stop_open() */
	struct remote_plan *plan; /* NULL: no remote calls can be made in this process */
	struct maps maps;	  /* the maps of the process, read in the stop */
	struct remote *remote;	  /* the remote calls; begun when they are first needed */
	/*
	 * The process is still making a call or running a routine for a killed tool, so WORK was
	 * not called.
	 */
	bool is_busy;
};

/*
 * Open all that STOP needs to stop the process, read it and write to it. HELD is the process if
 * tracee_spawn() has started it, and it is still stopped: then it stays so. Otherwise it is NULL. A
 * caller that makes remote calls must also set stop->plan, with remote_plan_make().
 */
int stop_open(struct ocp_ctx *ctx, pid_t pid, struct tracee *held, struct stop *stop);
void stop_close(struct stop *stop);

/*
 * Wait until the process has finished what a killed tool began in it. Return -EBUSY if it does not
 * finish, because a debugger or SIGSTOP has stopped it. Then stop the process, read its maps, call
 * WORK(ARG), and end the remote calls that WORK began.
 */
int stop_run(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg);

/*
 * Like stop_run(), but called in the work of tracee_run_stopped(), with everything in STOP set
 * except maps and remote. Does not wait: if the process has not finished what a killed tool began,
 * sets is_busy and returns -EBUSY.
 */
int stop_work(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg);

/* Return -ESRCH if the process has ended, is ending, or runs another program. */
int stop_check_alive(const struct stop *stop);

/* Begin the remote calls, unless they have begun already. Call this only in WORK. */
int stop_begin_calls(struct stop *stop);

/*
 * Make the system call NUMBER in the process; NAME is its name for a message. *RESULT is set on
 * success only. Returns 0, or the -errno of the call.
 */
int stop_call(struct stop *stop, const char *name, long number, const uint64_t args[6],
	      uint64_t *result);

/* Make the process unmap [START, END). The caller must know that no thread can be in this range. */
int stop_unmap(struct stop *stop, uint64_t start, uint64_t end);

/*
 * Return true if a thread may return to the code of the block with this HEADER: see
 * threads_may_use().
 */
bool stop_may_use(const struct stop *stop, const struct block_header *header);

/*
 * Make the process unmap all parts of the block with this HEADER. The caller must know that no
 * thread can be in these parts.
 */
int stop_unmap_block(struct stop *stop, const struct block_header *header);

/*
 * Remove what killed tools left: unmap orphans (blocks.h) and images of stores, and close
 * descriptors.
 */
void stop_remove_orphans(struct stop *stop);

/*
 * Memory that a stopped process makes for us. A second process, which is not stopped, can share the
 * descriptors of the stopped one (CLONE_FILES), and can put another file in place of the memfd at
 * any moment. So both the file that is opened here and the file that the process has mapped are
 * checked.
 */
struct memfd {
	int theirs; /* the number of the descriptor in the process */
	int ours;
	dev_t dev;
	ino_t ino;
};

/*
 * Make the process create a memfd called NAME, which must fit into remote_scratch(), and open the
 * memfd here for reading and writing. The memfd is new, has BYTES bytes, and cannot shrink, so that
 * accesses to a mapping of it never fault. On failure, no descriptor stays open.
 */
int memfd_make(struct stop *stop, const char *name, size_t bytes, struct memfd *memfd);

/* Make the process close its descriptor of the memfd, and close ours. */
int memfd_close(struct stop *stop, struct memfd *memfd);

/* Return true if the memfd DEV, INO is mapped at ADDR in MAPS. */
bool memfd_is_at(const struct maps *maps, uint64_t addr, dev_t dev, ino_t ino);

#endif

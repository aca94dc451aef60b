/* SPDX-License-Identifier: MIT */
/* Read and switch the states of handlers in the processes of a target. */
#ifndef WATCH_HANDLERS_H
#define WATCH_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "ocaml_probes.h"
#include "watch/watch.h"

/* One process of the target. */
struct looked_into {
	pid_t pid;
	struct ocp_process *proc; /* NULL: not readable, or not opened yet */
	unsigned int rest;	  /* ticks until the next attempt to open the process */
	enum ocp_state *states;	  /* one for each probe of proc */
};

struct handlers {
	struct looked_into *processes; /* sorted by pid */
	size_t n;
};

void handlers_free(struct handlers *handlers);
/*
 * Set the processes to the N PIDS, which are in ascending order. Open some of the processes that
 * are not open yet; a new process is opened one call later. Close the processes that are not in
 * PIDS. Return -ENOMEM or 0.
 */
int handlers_follow(struct ocp_ctx *ctx, struct handlers *handlers, const pid_t *pids, size_t n);
/*
 * Close all processes because some have loaded plugins. The next handlers_follow() opens them
 * again.
 */
void handlers_forget(struct handlers *handlers);
/*
 * Read the states in all open processes, and set the state of each of PROBES to the combination of
 * its states in these processes. PROBES must be sorted by name.
 */
void handlers_read(struct handlers *handlers, struct watch_probe *probes, size_t n_probes);
/*
 * Switch the handlers of PROBE in all processes. Same arguments and result as
 * watch_switch_handler().
 */
int handlers_switch(struct ocp_ctx *ctx, struct handlers *handlers, const char *probe, bool on,
		    size_t *n);

#endif

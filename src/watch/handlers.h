/* SPDX-License-Identifier: MIT */
/* The states of handlers in the processes of a target, and switching handlers. */
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
	struct ocp_process *proc; /* NULL: not readable, or too new */
	unsigned int rest;	  /* ticks until the next try */
	enum ocp_state *states;	  /* of the probes of proc */
};

struct handlers {
	struct looked_into *processes; /* sorted by pid */
	size_t n;
};

void handlers_free(struct handlers *handlers);
/* Set the processes to the N PIDS, ascending: open the new ones, forget the others. */
int handlers_follow(struct ocp_ctx *ctx, struct handlers *handlers, const pid_t *pids, size_t n);
/* Reopen all processes, after they have loaded plugins. */
void handlers_forget(struct handlers *handlers);
/* Read the states and combine them in PROBES, which are sorted by name. */
void handlers_read(struct handlers *handlers, struct watch_probe *probes, size_t n_probes);
/* See watch_switch_handler. */
int handlers_switch(struct ocp_ctx *ctx, struct handlers *handlers, const char *probe, bool on,
		    size_t *n);

#endif

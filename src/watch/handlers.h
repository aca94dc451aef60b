/* SPDX-License-Identifier: MIT */
/* The states of handlers in the processes of a target, and switching them. */
#ifndef WATCH_HANDLERS_H
#define WATCH_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "ocaml_probes.h"
#include "watch/watch.h"

/* A process that is looked into. */
struct looked_into {
	pid_t pid;
	struct ocp_process *proc; /* NULL: it may not be, or it is too young */
	unsigned int rest;	  /* ticks before that is tried again */
	enum ocp_state *states;	  /* of its probes */
};

struct handlers {
	struct looked_into *processes; /* by pid */
	size_t n;
};

void handlers_free(struct handlers *handlers);
/* Look into what is new among N PIDS, which are ascending, and forget what is gone. */
int handlers_follow(struct ocp_ctx *ctx, struct handlers *handlers, const pid_t *pids, size_t n);
/* Look into all anew: they have loaded plugins. */
void handlers_forget(struct handlers *handlers);
/* Read the states, and say in PROBES, which are by name, what they come to. */
void handlers_read(struct handlers *handlers, struct watch_probe *probes, size_t n_probes);
/* See watch_switch_handler. */
int handlers_switch(struct ocp_ctx *ctx, struct handlers *handlers, const char *probe, bool on,
		    size_t *n);

#endif

/* SPDX-License-Identifier: MIT */
/* The targets of a watch, and what the watch knows of processes and files. */
#ifndef WATCH_TARGETS_H
#define WATCH_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include "process/find.h"
#include "watch/target.h"
#include "watch/verdicts.h"

/* The targets. Rules that search for programs add targets to the list. */
struct targets {
	struct ocp_ctx *ctx;
	bool by_process;
	struct target **list;
	size_t n;
	struct find_memory known; /* known processes; expired at each tick */
	struct verdicts *verdicts;
};

/* Initialize TARGETS. Return 0 or -ENOMEM (with the message in CTX). */
int targets_init(struct targets *targets, struct ocp_ctx *ctx, bool by_process);
void targets_free(struct targets *targets);

/* Return the target of EXE in CONTAINER, or NULL if there is none. */
struct target *targets_find(const struct targets *targets, const char *exe,
			    const struct container *container);
/* Set *OUT to the target of EXE in CONTAINER. If there is none, create it. */
int targets_get(struct targets *targets, const char *exe, const struct container *container,
		struct target **out);
void targets_remove(struct targets *targets, size_t number);

#endif

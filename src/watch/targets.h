/* SPDX-License-Identifier: MIT */
/* The targets of a watch, and what it knows of processes and files for all of them. */
#ifndef WATCH_TARGETS_H
#define WATCH_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include "process/find.h"
#include "watch/target.h"
#include "watch/verdicts.h"

/* Rules that look for programs add some. */
struct targets {
	struct ocp_ctx *ctx;
	bool by_process;
	struct target **list;
	size_t n;
	struct find_memory known; /* of processes; expires with each tick */
	struct verdicts *verdicts;
};

/* Returns 0 or -ENOMEM (said in CTX). */
int targets_init(struct targets *targets, struct ocp_ctx *ctx, bool by_process);
void targets_free(struct targets *targets);

/* The target of EXE in CONTAINER; NULL: there is none. */
struct target *targets_find(const struct targets *targets, const char *exe,
			    const struct container *container);
/* Likewise; it is made if there is none. */
int targets_get(struct targets *targets, const char *exe, const struct container *container,
		struct target **out);
void targets_remove(struct targets *targets, size_t number);

#endif

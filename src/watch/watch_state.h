/* SPDX-License-Identifier: MIT */
/*
 * The contents of struct watch, for these files:
 *
 *	watch_set.c     changing the specs: rules and their targets
 *	watch_tick.c    the work of each second
 *	watch_budget.c  budgets
 *	watch_leave.c   probes that are not counted unless they are named
 *	watch.c         queries and switching
 */
#ifndef WATCH_STATE_H
#define WATCH_STATE_H

#include "watch/targets.h"
#include "watch/watch.h"
#include "watch/watch_rule.h"

struct watch {
	struct ocp_ctx *ctx;
	struct watch_rule **rules; /* one for each spec */
	size_t n_rules;
	struct targets targets;
	size_t failed_spec; /* of the last change, if it failed */
	size_t n_columns;   /* since the start; column N is at N % WATCH_COLUMNS */
	int64_t tick_ns;    /* CLOCK_MONOTONIC: of the last tick; 0: none yet */
	int64_t column_time_ns;
};

/* watch_budget.c: set the budgets in the views of the targets. */
void watch_tell_budgets(struct watch *watch);
/* Enforce the budgets for the last tick. Returns -ENOMEM or 0. */
int watch_keep_budgets(struct watch *watch);
/* TARGET is requested again: switch its counters that exceeded the budget back on. */
int watch_forgive(struct watch *watch, struct target *target);

#endif

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
	size_t failed_spec; /* index of the spec that made the last watch_set() fail */
	/* Number of columns since the start; column N of the minute is at N % WATCH_COLUMNS. */
	size_t n_columns;
	int64_t tick_ns; /* CLOCK_MONOTONIC: the time of the last tick; 0: no tick so far */
	int64_t column_time_ns;
};

/* watch_budget.c: set the budget in the view of each target. */
void watch_tell_budgets(struct watch *watch);
/* Enforce the budgets for the last tick. Return -ENOMEM or 0. */
int watch_keep_budgets(struct watch *watch);
/*
 * Prepare TARGET for a new request: switch on the counters that a budget has switched off, and
 * forget which files exceeded it.
 */
int watch_forgive(struct watch *watch, struct target *target);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What a struct watch holds, for the files that it is made of:
 *
 *	watch_set.c     what is watched: rules that come, stay and go, and their targets
 *	watch_tick.c    what happens each second
 *	watch_budget.c  what measuring may cost
 *	watch.c         questions, and switching
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
	size_t n_columns; /* since the start; number N is at N % WATCH_COLUMNS */
	int64_t tick_ns;  /* CLOCK_MONOTONIC: the last; 0: none yet */
	int64_t column_time_ns;
};

/* watch_budget.c: say in each target's view what may be spent on it. */
void watch_tell_budgets(struct watch *watch);
/* Hold what was spent in the last tick against it. Returns -ENOMEM or 0. */
int watch_keep_budgets(struct watch *watch);
/* TARGET is asked for anew: what was switched off because of its costs is switched on again. */
int watch_forgive(struct watch *watch, struct target *target);

#endif

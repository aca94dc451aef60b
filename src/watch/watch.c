// SPDX-License-Identifier: MIT
#include "watch/watch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "program/item.h"
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

struct watch *watch_new(struct ocp_ctx *ctx, bool by_process)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (!watch) {
		ctx_no_memory(ctx);
		return NULL;
	}
	watch->ctx = ctx;
	if (targets_init(&watch->targets, ctx, by_process)) {
		free(watch);
		return NULL;
	}
	return watch;
}

void watch_free(struct watch *watch)
{
	if (!watch)
		return;
	for (size_t i = 0; i < watch->n_rules; i++)
		watch_rule_free(watch->rules[i]);
	free(watch->rules);
	targets_free(&watch->targets);
	free(watch);
}

/* ---- queries -------------------------------------------------------------------------------- */

size_t watch_target_count(const struct watch *watch)
{
	return watch->targets.n;
}

const struct watch_target *watch_target(const struct watch *watch, size_t target)
{
	return &watch->targets.list[target]->view;
}

ptrdiff_t watch_find_target(const struct watch *watch, const char *title)
{
	for (size_t i = 0; i < watch->targets.n; i++)
		if (strcmp(watch->targets.list[i]->title, title) == 0)
			return (ptrdiff_t)i;
	return -1;
}

static int compare_probe_name(const void *name, const void *probe)
{
	return strcmp(name, ((const struct watch_probe *)probe)->name);
}

ptrdiff_t watch_find_probe(const struct watch_target *target, const char *name)
{
	const struct watch_probe *probe =
		target->n_probes ? bsearch(name, target->probes, target->n_probes,
					   sizeof(*target->probes), compare_probe_name)
				 : NULL;

	return probe ? probe - target->probes : -1;
}

size_t watch_column_count(const struct watch *watch, enum watch_span span)
{
	const size_t n = watch->n_columns / watch_column_ticks(span);

	return n < WATCH_COLUMNS ? n : WATCH_COLUMNS;
}

int64_t watch_column_time_ns(const struct watch *watch, enum watch_span span)
{
	const size_t later = watch->n_columns % watch_column_ticks(span);

	return watch->column_time_ns - (int64_t)later * WATCH_TICK_MS * 1000000;
}

/* Return the index of column AGE in the ring of SPAN. The column must be complete. */
static size_t ring_index(const struct watch *watch, enum watch_span span, size_t age)
{
	const size_t column = watch->n_columns / watch_column_ticks(span) - 1 - age;

	return column % (span == WATCH_MINUTE ? (size_t)WATCH_COLUMNS : (size_t)QUARTER_RING);
}

double watch_probe_rate(const struct watch *watch, enum watch_span span, size_t target,
			size_t probe, size_t age)
{
	const struct probe_record *record = watch->targets.list[target]->probe_records[probe];

	if (age >= watch_column_count(watch, span))
		return NAN;
	return (span == WATCH_MINUTE ? record->rates
				     : record->quarters)[ring_index(watch, span, age)];
}

const uint32_t *watch_pair_column(const struct watch *watch, enum watch_span span, size_t target,
				  size_t pair, size_t age)
{
	const struct pair_record *record = watch->targets.list[target]->pair_records[pair];
	const bool is_minute = span == WATCH_MINUTE;
	size_t place;

	if (age >= watch_column_count(watch, span))
		return NULL;
	place = ring_index(watch, span, age);
	if (!(is_minute ? record->has_column : record->has_quarter)[place])
		return NULL;
	return is_minute ? record->columns[place] : record->quarters[place];
}

/* ---- switching ------------------------------------------------------------------------------ */

int watch_switch_handler(struct watch *watch, size_t number, const char *probe, bool on, size_t *n)
{
	struct target *target = watch->targets.list[number];
	int err;

	*n = 0;
	if (watch_find_probe(&target->view, probe) < 0)
		return ctx_error(watch->ctx, -ENOENT, "%s: no probe '%s'", target->title, probe);
	if (item_is_code(probe))
		return ctx_error(watch->ctx, -EINVAL,
				 "'%s' is not a probe: it has a counter, but no handlers", probe);
	if (!target->handlers.n)
		return ctx_error(watch->ctx, -ESRCH, "%s: no process runs it", target->title);
	err = handlers_switch(watch->ctx, &target->handlers, probe, on, n);
	handlers_read(&target->handlers, target->probes, target->view.n_probes);
	return err;
}

/*
 * Switch the counter back to WAS_ON in the first N sources. Continue after a failure in one of
 * them.
 */
static void switch_back(struct target *target, size_t n, const char *probe, bool was_on)
{
	for (size_t i = 0; i < n; i++) {
		const int err = ocp_meter_switch(target->sources[i]->meter, probe, was_on);

		if (err && err != -ENOENT)
			ctx_log(target->ctx, OCP_LOG_WARN, "%s", ocp_error(target->ctx));
	}
}

/*
 * Switch the counter of PROBE in all sources that have PROBE. If this fails in one source, switch
 * it back in the others.
 */
static int switch_in_sources(struct target *target, const char *probe, bool on, bool was_on)
{
	bool was_found = false;
	int err = 0;

	for (size_t i = 0; i < target->n_sources; i++) {
		err = ocp_meter_switch(target->sources[i]->meter, probe, on);
		was_found |= !err;
		if (!err || err == -ENOENT)
			continue;
		switch_back(target, i, probe, was_on);
		return err;
	}
	return was_found ? 0 : err;
}

int watch_switch_counter(struct watch *watch, size_t number, const char *probe, bool on)
{
	struct target *target = watch->targets.list[number];
	const ptrdiff_t at = watch_find_probe(&target->view, probe);
	int err;

	if (at < 0)
		return ctx_error(watch->ctx, -ENOENT, "%s: no probe '%s'", target->title, probe);
	err = switch_in_sources(target, probe, on, !target->probe_records[at]->is_off);
	if (err)
		return err;
	target->probe_records[at]->is_off = !on;
	target->probe_records[at]->is_cut = false;
	target->probes[at].is_counted = on;
	return 0;
}

/* ---- probes that are not counted unless they are named --------------------------------------- */

/*
 * When all probes are counted, some cost more than their counts are worth. watch_leave_probes()
 * stops counting these, unless the user has named what to count.
 */

/* Return true if the probes of TARGET are counted only because all probes are requested. */
static bool counts_all(const struct watch *watch, const struct target *target)
{
	for (size_t i = 0; i < watch->n_rules; i++) {
		const struct watch_rule *rule = watch->rules[i];

		if (rule->exe && rule->target != target)
			continue;
		for (size_t j = 0; j < rule->request->counted.n; j++)
			if (rule->request->counted.list[j].kind != ITEM_ALL_PROBES)
				return false;
	}
	return true;
}

static bool has_inside(const struct target *target)
{
	for (size_t i = 0; i < target->n_sources; i++)
		if (target->sources[i]->is_inside)
			return true;
	return false;
}

void watch_leave_probes(struct watch *watch, const char *prefix)
{
	for (size_t t = 0; t < watch->targets.n; t++) {
		struct target *target = watch->targets.list[t];

		/* Probes that are counted inside cost very little. */
		for (size_t i = 0; i < target->view.n_probes && !has_inside(target); i++) {
			const struct watch_probe *probe = &target->probes[i];
			struct probe_record *record = target->probe_records[i];

			if (record->was_left || !probe->is_counted || probe->is_in_pair ||
			    strncmp(probe->name, prefix, strlen(prefix)) != 0 ||
			    !counts_all(watch, target))
				continue;
			record->was_left = true;
			if (watch_switch_counter(watch, t, probe->name, false))
				ctx_log(watch->ctx, OCP_LOG_WARN, "%s: %s", target->title,
					ocp_error(watch->ctx));
		}
	}
}

/* ---- budgets --------------------------------------------------------------------------------- */

enum { MAX_CUTS = 8 }; /* per tick, since switching a counter off takes up to 0.1 s */

/*
 * Return the sum of the budgets of the rules that measure TARGET; 0 if one of these rules has no
 * budget.
 */
static double budget_of(const struct watch *watch, const struct target *target)
{
	double sum = 0;

	for (size_t i = 0; i < watch->n_rules; i++) {
		const struct watch_rule *rule = watch->rules[i];

		if (rule->exe && rule->target != target)
			continue;
		if (rule->request->budget <= 0)
			return 0;
		sum += rule->request->budget;
	}
	return sum;
}

/* Set the budget in the view of each target. */
static void watch_tell_budgets(struct watch *watch)
{
	for (size_t i = 0; i < watch->targets.n; i++)
		watch->targets.list[i]->view.budget = budget_of(watch, watch->targets.list[i]);
}

/*
 * Return a weight for the cost of PROBE, to compare it with other probes: its rate if BY_RATE,
 * otherwise its hits.
 */
static double weight_of(const struct watch_probe *probe, bool by_rate)
{
	const double weight = by_rate ? probe->rate : (double)probe->hits;

	return weight > 0 ? weight : 0; /* 0 also if the rate is NaN (unknown) */
}

static double sum_weights(const struct target *target, bool by_rate)
{
	double sum = 0;

	for (size_t i = 0; i < target->view.n_probes; i++)
		sum += weight_of(&target->probes[i], by_rate);
	return sum;
}

/*
 * Return the index of TARGET's probe with the most expensive counter that can be switched off; -1:
 * no counter can be switched off.
 */
static ptrdiff_t busiest_probe(const struct target *target, bool by_rate)
{
	ptrdiff_t busiest = -1;
	double most = 0;

	for (size_t i = 0; i < target->view.n_probes; i++) {
		const struct watch_probe *probe = &target->probes[i];
		const double weight = weight_of(probe, by_rate);

		if (!probe->is_counted || probe->is_in_pair || weight <= most)
			continue;
		busiest = (ptrdiff_t)i;
		most = weight;
	}
	return busiest;
}

static size_t count_cuts(const struct target *target)
{
	size_t n = 0;

	for (size_t i = 0; i < target->view.n_probes; i++)
		n += target->probe_records[i]->is_cut;
	return n;
}

/*
 * Exclude the sources of RULE from the next check of the budget, since the next tick still includes
 * the cost of the counters before they were switched off.
 */
static void excuse_sources(const struct target *target, const struct watch_rule *rule)
{
	for (size_t i = 0; i < target->n_sources; i++)
		if (target->sources[i]->owner == rule)
			target->sources[i]->was_cut = true;
}

/*
 * Switch counters off, the busiest first, until the overhead is expected to be within the budget,
 * but at most MAX_CUTS counters. If that is not enough, end the sources of RULE. SHARE is the CPU
 * overhead. It may be the overhead of several ticks (see tick_cost()); if the last tick had no
 * hits, compare the counters by all their hits, not by their rates.
 */
static int cut_costs(struct watch *watch, size_t number, const struct watch_rule *rule,
		     double share)
{
	struct target *target = watch->targets.list[number];
	const double budget = rule->request->budget, too_much = share;
	const bool by_rate = sum_weights(target, true) > 0;
	const double all = sum_weights(target, by_rate);
	ptrdiff_t probe;
	size_t n = 0;
	int err = 0;

	while (!err && n < MAX_CUTS && share > budget &&
	       (probe = busiest_probe(target, by_rate)) >= 0) {
		share -= too_much * weight_of(&target->probes[probe], by_rate) / all;
		err = watch_switch_counter(watch, number, target->probes[probe].name, false);
		target->probe_records[probe]->is_cut = !err;
		n += !err;
	}
	if (n)
		excuse_sources(target, rule);
	if (!err && share > budget) {
		target->is_over_budget = true;
		err = target_end_sources(target, rule, target_give_up_source);
	}
	if (err)
		return err == -ENOMEM ? err : target_set_problem(target, ocp_error(watch->ctx));
	if (target->is_over_budget)
		ctx_error(watch->ctx, -EDQUOT,
			  "measuring stopped: CPU overhead %.0f%% exceeds the budget of %g%%",
			  100 * too_much, 100 * budget);
	else
		ctx_error(watch->ctx, -EDQUOT,
			  "busiest counters switched off (%zu): CPU overhead %.0f%% exceeds the "
			  "budget of %g%%",
			  count_cuts(target), 100 * too_much, 100 * budget);
	return target_set_problem(target, ocp_error(watch->ctx));
}

static bool move_inside(struct watch *watch, struct watch_rule *rule, double share, int *err)
{
	char why[96];

	snprintf(why, sizeof(why), "CPU overhead %.0f%% exceeds the budget of %g%%", 100 * share,
		 100 * rule->request->budget);
	return watch_rule_move_inside(rule, &watch->targets, why, err);
}

/*
 * If the CPU overhead of RULE's sources in target NUMBER exceeds the rule's budget, count inside or
 * switch counters off.
 */
static int keep_budget(struct watch *watch, size_t number, struct watch_rule *rule)
{
	const struct target *target = watch->targets.list[number];
	double share = 0;
	int err = 0;

	for (size_t i = 0; i < target->n_sources; i++) {
		struct source *source = target->sources[i];

		/*
		 * Skip sources that count inside: nothing is cheaper, and their counters cannot be
		 * switched off.
		 */
		if (source->owner != rule || source->is_inside)
			continue;
		share += source->was_cut ? 0 : source->cpu_overhead;
		source->was_cut = false;
	}
	if (rule->request->budget <= 0 || share <= rule->request->budget)
		return 0;
	if (move_inside(watch, rule, share, &err))
		return err;
	return cut_costs(watch, number, rule, share);
}

/* Enforce the budgets for the last tick. Return -ENOMEM or 0. */
static int watch_keep_budgets(struct watch *watch)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++)
		for (size_t j = 0; !err && j < watch->n_rules; j++)
			err = keep_budget(watch, i, watch->rules[j]);
	return err;
}

/*
 * Prepare TARGET for a request with a new budget: switch on the counters that the old budget has
 * switched off, and forget which files exceeded the old budget.
 */
static int watch_forgive(struct watch *watch, struct target *target)
{
	size_t number = 0;
	int err = 0;

	while (watch->targets.list[number] != target)
		number++;
	target_forgive(target);
	for (size_t i = 0; !err && i < target->view.n_probes; i++)
		if (target->probe_records[i]->is_cut)
			err = watch_switch_counter(watch, number, target->probes[i].name, true);
	return err;
}

/* ---- changing the specs ---------------------------------------------------------------------- */

/* The change that one watch_set() makes: the rules that remain, and the new ones. */
struct rule_change {
	struct watch_rule **rules;
	bool *is_new;
	size_t n;
};

static struct watch_rule *find_rule(const struct watch *watch, const struct watch_spec *spec)
{
	for (size_t i = 0; i < watch->n_rules; i++)
		if (watch_rule_is_for(watch->rules[i], spec))
			return watch->rules[i];
	return NULL;
}

static bool has_equal_label(const struct watch_rule *a, const struct watch_rule *b)
{
	if (!a->request->by || !b->request->by)
		return !a->request->by && !b->request->by;
	return strcmp(a->request->by, b->request->by) == 0 &&
	       strcmp(a->label.name, b->label.name) == 0 && a->label.limit == b->label.limit;
}

/*
 * Return -EINVAL if RULE and a rule of CHANGE would measure the same process (a rule for a file
 * measures all its processes), or if one of the two rules watches all programs.
 */
static int check_rule(struct ocp_ctx *ctx, const struct rule_change *change,
		      const struct watch_rule *rule)
{
	for (size_t i = 0; i < change->n; i++) {
		const struct watch_rule *other = change->rules[i];

		if (!rule->exe || !other->exe)
			return ctx_error(ctx, -EINVAL,
					 "cannot watch all programs and named ones together");
		if (!watch_rule_has_file_of(rule, other))
			continue;
		if (!rule->pid || !other->pid)
			return ctx_error(ctx, -EINVAL, "%s: given twice", rule->exe);
		if (rule->pid == other->pid)
			return ctx_error(ctx, -EINVAL, "pid %d: given twice", (int)rule->pid);
		if (!has_equal_label(rule, other))
			return ctx_error(ctx, -EINVAL,
					 "groups by another argument, label or limit than pid %d, "
					 "which runs the same program",
					 (int)other->pid);
	}
	return 0;
}

static int prepare_rules(struct watch *watch, const struct watch_spec *specs, size_t n,
			 struct rule_change *change)
{
	int err = 0;

	*change = (struct rule_change){ .rules = calloc(n + 1, sizeof(void *)),
					.is_new = calloc(n + 1, sizeof(bool)) };
	if (!change->rules || !change->is_new)
		return ctx_no_memory(watch->ctx);
	for (size_t i = 0; !err && i < n; i++) {
		struct watch_rule *rule = find_rule(watch, &specs[i]);
		const bool is_new = !rule;

		watch->failed_spec = i;
		if (is_new)
			err = watch_rule_new(&watch->targets, &specs[i], &rule);
		if (err)
			break;
		err = check_rule(watch->ctx, change, rule);
		if (err && is_new)
			watch_rule_free(rule);
		if (err)
			break;
		change->is_new[change->n] = is_new;
		change->rules[change->n++] = rule;
	}
	return err;
}

static bool is_kept(const struct rule_change *change, const struct watch_rule *rule)
{
	for (size_t i = 0; i < change->n; i++)
		if (change->rules[i] == rule)
			return true;
	return false;
}

static int end_rule(struct watch *watch, const struct watch_rule *rule)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++)
		err = target_end_sources(watch->targets.list[i], rule, target_end_source);
	return err;
}

/*
 * Return true if a rule still wants TARGET. When all programs are watched, targets that were named
 * before remain.
 */
static bool is_target_wanted(const struct watch *watch, struct target *target)
{
	for (size_t i = 0; i < watch->n_rules; i++) {
		if (watch->rules[i]->exe && watch->rules[i]->target != target)
			continue;
		target->is_discovered = !watch->rules[i]->exe;
		return true;
	}
	return false;
}

static int begin_search(struct watch *watch)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++) {
		err = watch_forgive(watch, watch->targets.list[i]);
		if (!err)
			err = target_set_problem(watch->targets.list[i], NULL);
	}
	return err;
}

/* Open a source for each process that runs the file now. */
static int begin_inside(struct watch *watch, struct watch_rule *rule)
{
	rule->target->view.engine = WATCH_ENGINE_INSIDE;
	find_memory_expire(&watch->targets.known);
	return watch_rule_follow(rule, &watch->targets, clock_ns(CLOCK_MONOTONIC));
}

/*
 * Set the target of RULE, which is new. If the target splits its numbers in another way than RULE
 * demands, replace it by a new one, whose totals start at 0. All rules of the old target have
 * ended, since the rules of a target have the same label.
 */
static int get_target(struct watch *watch, struct watch_rule *rule)
{
	const char *arg = rule->request->by;
	struct target *old = targets_find(&watch->targets, rule->exe, &rule->container);
	int err;

	if (old && target_has_label(old, &rule->label, arg)) {
		rule->target = old;
		return 0;
	}
	for (size_t i = 0; old && i < watch->targets.n; i++)
		if (watch->targets.list[i] == old) {
			targets_remove(&watch->targets, i);
			break;
		}
	err = targets_get(&watch->targets, rule->exe, &rule->container, &rule->target);
	return err ? err : target_set_label(rule->target, &rule->label, arg);
}

/* Begin RULE. If its target has a problem because of an earlier rule, clear that problem. */
static int begin_rule(struct watch *watch, struct watch_rule *rule)
{
	int err;

	if (!rule->exe)
		return begin_search(watch);
	err = get_target(watch, rule);
	if (err)
		return err;
	err = watch_forgive(watch, rule->target);
	if (!err && rule->first)
		err = watch_rule_start(rule);
	if (!err)
		err = target_set_problem(rule->target, NULL);
	if (!err && rule->is_inside && !rule->pid)
		err = begin_inside(watch, rule);
	else if (!err && !rule->pid && !rule->target->n_sources)
		err = watch_rule_follow(rule, &watch->targets, clock_ns(CLOCK_MONOTONIC));
	if (!err)
		return 0;
	/* Do not fail: later ticks try again. Until then, the target has a problem. */
	return err == -ENOMEM ? err : target_set_problem(rule->target, ocp_error(watch->ctx));
}

/*
 * Apply CHANGE: end the old rules that it does not contain, then begin its new rules, in order. A
 * target that a rule still wants is kept: its counts include those of sources that have ended.
 */
static int commit(struct watch *watch, struct rule_change *change)
{
	struct watch_rule **old = watch->rules;
	const size_t n_old = watch->n_rules;
	int err = 0;

	for (size_t i = 0; i < n_old; i++)
		if (!is_kept(change, old[i])) {
			int its_err = end_rule(watch, old[i]);

			err = err ? err : its_err;
		}
	watch->rules = change->rules;
	watch->n_rules = change->n;
	for (size_t i = 0; i < change->n; i++) {
		int its_err = change->is_new[i] ? begin_rule(watch, change->rules[i]) : 0;

		err = err ? err : its_err;
	}
	for (size_t i = 0; i < n_old; i++)
		if (!is_kept(change, old[i]))
			watch_rule_free(old[i]);
	free(old);
	for (size_t i = watch->targets.n; i-- > 0;) {
		int its_err = 0;

		if (is_target_wanted(watch, watch->targets.list[i]))
			its_err = target_collect_pids(watch->targets.list[i]);
		else
			targets_remove(&watch->targets, i);
		err = err ? err : its_err;
	}
	watch_tell_budgets(watch);
	return err;
}

/*
 * Attach the programs that were not watched before. Call this before anything else is changed: if
 * attaching fails, nothing needs to be undone.
 */
static int start_early(struct watch *watch, const struct rule_change *change)
{
	int err = 0;

	for (size_t i = 0; !err && i < change->n; i++) {
		struct watch_rule *rule = change->rules[i];
		const bool is_fresh = change->is_new[i] && rule->first &&
				      !targets_find(&watch->targets, rule->exe, &rule->container);

		if (!is_fresh)
			continue;
		watch->failed_spec = i;
		source_tell_estimate(rule->first);
		err = source_attach(rule->first);
	}
	return err;
}

size_t watch_failed_spec(const struct watch *watch)
{
	return watch->failed_spec;
}

/* Return true if SPECS watch all programs: the only spec has no file and no process. */
static bool is_all(const struct watch_spec *specs, size_t n)
{
	return n == 1 && !specs[0].exe && !specs[0].pid;
}

static bool watches_all(const struct watch *watch)
{
	return watch->n_rules == 1 && !watch->rules[0]->exe;
}

int watch_set(struct watch *watch, const struct watch_spec *specs, size_t n)
{
	struct rule_change change;
	int err;

	verdicts_set_all(watch->targets.verdicts, is_all(specs, n));
	err = prepare_rules(watch, specs, n, &change);
	if (!err)
		err = start_early(watch, &change);
	if (err) {
		for (size_t i = 0; i < change.n; i++)
			if (change.is_new[i])
				watch_rule_free(change.rules[i]);
		free(change.rules);
	} else {
		err = commit(watch, &change);
	}
	free(change.is_new);
	verdicts_set_all(watch->targets.verdicts, watches_all(watch));
	return err;
}

/* ---- each second ----------------------------------------------------------------------------- */

#define TICK_NS ((int64_t)WATCH_TICK_MS * 1000 * 1000)
/*
 * How long a program that the user has not named is kept after its last process has exited.
 * Containers whose processes have exited rarely return, so they are kept for a shorter time, which
 * is long enough for several scrapes.
 */
#define FORGET_NS	    ((int64_t)600 * 1000 * 1000 * 1000)
#define FORGET_CONTAINER_NS ((int64_t)120 * 1000 * 1000 * 1000)

/* How often the rows of exited processes are merged. */
enum {
	FORGET_ROWS_TICKS = 300,
	/* A quarter of the rows that a meter can hold; with more rows, merge more often. */
	MANY_ROWS = 16384,
	FORGET_MANY_ROWS_TICKS = 10,
};

/*
 * Return true if it is time to merge the rows of exited processes. Merging makes room for new rows.
 * This tick has already read the rows that will be merged.
 */
static bool is_time_to_forget(const struct watch *watch, const struct target *target)
{
	const size_t period =
		target->view.n_rows > MANY_ROWS ? FORGET_MANY_ROWS_TICKS : FORGET_ROWS_TICKS;

	return watch->n_columns % period == period - 1;
}

static int forget_rows(struct watch *watch)
{
	int err = 0;

	for (size_t i = 0; !err && watch->targets.by_process && i < watch->targets.n; i++) {
		struct target *target = watch->targets.list[i];

		if (!is_time_to_forget(watch, target))
			continue;
		target_forget_rows(target);
		for (size_t j = 0; !err && j < target->n_sources; j++)
			err = ocp_meter_forget_ended(target->sources[j]->meter);
	}
	return err;
}

static int refresh_sources(struct target *target, int64_t now_ns)
{
	bool has_problem = false;
	int err = 0;

	for (size_t i = 0; !err && i < target->n_sources; i++) {
		size_t n_sites = 0;

		err = source_refresh(target->sources[i], &n_sites);
		if (err == -ENOMEM)
			break;
		if (err) {
			/*
			 * A stale source ends, and attaching the source that replaces it clears the
			 * problem.
			 */
			const bool passes = err != -ESTALE;

			err = target_set_problem(target, ocp_error(target->ctx));
			target->problem_passes = passes;
			has_problem = true;
		}
		if (n_sites)
			handlers_forget(&target->handlers);
		source_ask_costs(target->sources[i], now_ns);
	}
	if (!err && !has_problem && target->problem_passes)
		err = target_set_problem(target, NULL);
	return err;
}

/*
 * Set *NEEDED to whether TARGET must be kept. A target is kept while it has measured processes. If
 * measuring was given up because of the budget, TARGET has no measured processes, but is kept:
 * otherwise its file would be found and measured again. In this case, a target in a container is
 * kept only while a process runs its file, or may run it (it cannot be inspected).
 */
static int is_needed(struct target *target, struct find_memory *known, bool *needed)
{
	*needed = target->view.n_pids || target->is_over_budget;
	if (target->view.n_pids || !*needed || !container_is_known(&target->container))
		return 0;
	return target_is_run(target, known, needed);
}

static int follow_target(struct target *target, struct find_memory *known, int64_t now_ns)
{
	int err = target_read(target);
	bool needed = true;

	if (!err)
		err = target_collect_pids(target);
	if (!err)
		err = handlers_follow(target->ctx, &target->handlers, target->pids,
				      target->view.n_pids);
	if (!err)
		err = collector_follow(target->ctx, &target->collector, target->pids,
				       target->view.n_pids);
	if (err)
		return err;
	handlers_read(&target->handlers, target->probes, target->view.n_probes);
	err = is_needed(target, known, &needed);
	if (needed)
		target->idle_since_ns = 0;
	else if (!target->idle_since_ns)
		target->idle_since_ns = now_ns;
	return err;
}

static size_t newest_quarter(const struct watch *watch)
{
	return watch->n_columns / WATCH_QUARTER_TICKS % QUARTER_RING;
}

/*
 * Called before column number n_columns of the minute is filled. If a column of the quarter hour
 * begins at the same time, begin it in all targets.
 */
static void begin_quarter(struct watch *watch)
{
	if (watch->n_columns % WATCH_QUARTER_TICKS != 0)
		return;
	for (size_t i = 0; i < watch->targets.n; i++)
		target_begin_quarter(watch->targets.list[i], newest_quarter(watch));
}

/*
 * Skip the columns for which there was no tick because the caller was late. After a quarter of an
 * hour without a tick, all columns are unknown.
 */
static void skip_columns(struct watch *watch, int64_t dt_ns)
{
	const size_t most = (size_t)QUARTER_RING * WATCH_QUARTER_TICKS;
	size_t n = dt_ns > 0 ? (size_t)((dt_ns + TICK_NS / 2) / TICK_NS) : 1;

	for (n = n > most ? most : n; n > 1; n--, watch->n_columns++) {
		begin_quarter(watch);
		for (size_t i = 0; i < watch->targets.n; i++)
			target_skip(watch->targets.list[i], watch->n_columns % WATCH_COLUMNS);
	}
	begin_quarter(watch);
}

static void forget_idle(struct watch *watch, int64_t now_ns)
{
	for (size_t i = watch->targets.n; i-- > 0;) {
		const struct target *target = watch->targets.list[i];
		const int64_t forget_ns =
			container_is_known(&target->container) ? FORGET_CONTAINER_NS : FORGET_NS;

		if (target->is_discovered && target->idle_since_ns &&
		    now_ns - target->idle_since_ns > forget_ns)
			targets_remove(&watch->targets, i);
	}
}

int watch_tick(struct watch *watch)
{
	int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int err = 0;

	find_memory_expire(&watch->targets.known);
	for (size_t i = 0; !err && i < watch->targets.n; i++)
		err = refresh_sources(watch->targets.list[i], now_ns);
	for (size_t i = 0; !err && i < watch->n_rules; i++)
		err = watch_rule_follow(watch->rules[i], &watch->targets, now_ns);
	for (size_t i = 0; !err && i < watch->targets.n; i++)
		err = follow_target(watch->targets.list[i], &watch->targets.known, now_ns);
	if (err)
		return err;
	now_ns = clock_ns(CLOCK_MONOTONIC);
	skip_columns(watch, watch->tick_ns ? now_ns - watch->tick_ns : 0);
	for (size_t i = 0; i < watch->targets.n; i++)
		target_tick(watch->targets.list[i], watch->n_columns % WATCH_COLUMNS,
			    newest_quarter(watch),
			    watch->tick_ns ? now_ns - watch->tick_ns : TICK_NS);
	watch->n_columns++;
	watch->tick_ns = now_ns;
	watch->column_time_ns = clock_ns(CLOCK_REALTIME);
	forget_idle(watch, now_ns);
	watch_tell_budgets(watch);
	err = forget_rows(watch);
	if (err)
		return err;
	return watch_keep_budgets(watch);
}

int watch_read(struct watch *watch)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++)
		err = target_read(watch->targets.list[i]);
	return err;
}

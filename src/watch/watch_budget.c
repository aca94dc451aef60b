// SPDX-License-Identifier: MIT
/* Check and enforce the budgets of rules. */
#include <errno.h>
#include <stdio.h>

#include "base/ctx.h"
#include "watch/watch_state.h"

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

void watch_tell_budgets(struct watch *watch)
{
	for (size_t i = 0; i < watch->targets.n; i++)
		watch->targets.list[i]->view.budget = budget_of(watch, watch->targets.list[i]);
}

/* ---- enforcing budgets ---------------------------------------------------------------------- */

/*
 * Return a weight for the cost of PROBE, to compare it with other probes: its rate if BY_RATE,
 * otherwise its hits.
 */
static double weight_of(const struct watch_probe *probe, bool by_rate)
{
	const double weight = by_rate ? probe->rate : (double)probe->hits;

	return weight > 0 ? weight : 0; /* also for NaN, an unknown rate */
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
 * Exclude the sources of RULE from the next check, since the next tick still includes the cost of
 * the counters before they were switched off.
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

int watch_keep_budgets(struct watch *watch)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++)
		for (size_t j = 0; !err && j < watch->n_rules; j++)
			err = keep_budget(watch, i, watch->rules[j]);
	return err;
}

/*
 * Called when TARGET is requested with a new budget: switch the counters on again that the old
 * budget has switched off, and forget which files exceeded the old budget.
 */
int watch_forgive(struct watch *watch, struct target *target)
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

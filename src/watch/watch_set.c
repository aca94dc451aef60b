// SPDX-License-Identifier: MIT
/* Change the specs of a watch. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "watch/watch_state.h"

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

/* Begin RULE. If its target has a problem because of an earlier rule, clear it. */
static int begin_rule(struct watch *watch, struct watch_rule *rule)
{
	int err;

	if (!rule->exe)
		return begin_search(watch);
	err = targets_get(&watch->targets, rule->exe, &rule->container, &rule->target);
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
	/* Later ticks try again, so this is only a problem of the target. */
	return err == -ENOMEM ? err : target_set_problem(rule->target, ocp_error(watch->ctx));
}

/*
 * Apply the change in the order of the rules. The numbers of a target continue where the old rule
 * ended.
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

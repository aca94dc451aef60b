// SPDX-License-Identifier: MIT
#include "watch/watch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "watch/entry.h"
#include "watch/target.h"

#define TICK_NS ((int64_t)WATCH_TICK_MS * 1000 * 1000)
/* How long a program that nobody named is remembered after its last process. */
#define FORGET_NS ((int64_t)600 * 1000 * 1000 * 1000)

/* How often rows of processes that have ended are forgotten. */
enum {
	FORGET_ROWS_TICKS = 300,
	MANY_ROWS = 16384, /* a quarter of what a meter has room for: then it is more often */
	FORGET_MANY_ROWS_TICKS = 10,
};

enum { MAX_CUTS = 8 }; /* counters switched off in one tick: each takes up to a tenth of a second */

struct watch {
	struct ocp_ctx *ctx;
	struct entry **entries;
	size_t n_entries;
	struct targets targets;
	size_t n_columns; /* since the start; number N is at N % WATCH_COLUMNS */
	int64_t tick_ns;  /* CLOCK_MONOTONIC: the last; 0: none yet */
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
	watch->targets = (struct targets){ .ctx = ctx, .by_process = by_process };
	watch->targets.verdicts = verdicts_new(ctx);
	if (!watch->targets.verdicts) {
		free(watch);
		return NULL;
	}
	return watch;
}

void watch_free(struct watch *watch)
{
	if (!watch)
		return;
	for (size_t i = 0; i < watch->n_entries; i++)
		entry_free(watch->entries[i]);
	for (size_t i = 0; i < watch->targets.n; i++)
		target_free(watch->targets.list[i]);
	free(watch->entries);
	free(watch->targets.list);
	find_memory_free(&watch->targets.known);
	verdicts_free(watch->targets.verdicts);
	free(watch);
}

/* ---- what is watched ------------------------------------------------------------------------ */

/* What a call of watch_set comes to: entries that are kept, and new ones. */
struct change {
	struct entry **entries;
	bool *is_new;
	size_t n;
};

static struct entry *find_entry(const struct watch *watch, const struct watch_spec *spec)
{
	for (size_t i = 0; i < watch->n_entries; i++)
		if (entry_is_for(watch->entries[i], spec))
			return watch->entries[i];
	return NULL;
}

/* Would two entries measure the same process? */
static int check_entry(struct ocp_ctx *ctx, const struct change *change, const struct entry *entry)
{
	for (size_t i = 0; i < change->n; i++) {
		const struct entry *other = change->entries[i];

		if (!entry->exe || !other->exe)
			return ctx_error(ctx, -EINVAL, "watching: all programs, or some by name");
		if (!entry_has_file_of(entry, other))
			continue;
		if (!entry->pid || !other->pid)
			return ctx_error(ctx, -EINVAL, "%s: is to be watched twice", entry->exe);
		if (entry->pid == other->pid)
			return ctx_error(ctx, -EINVAL, "pid %d: is to be watched twice",
					 (int)entry->pid);
	}
	return 0;
}

static int prepare(struct watch *watch, const struct watch_spec *specs, size_t n,
		   struct change *change)
{
	int err = 0;

	*change = (struct change){ .entries = calloc(n + 1, sizeof(void *)),
				   .is_new = calloc(n + 1, sizeof(bool)) };
	if (!change->entries || !change->is_new)
		return ctx_no_memory(watch->ctx);
	for (size_t i = 0; !err && i < n; i++) {
		struct entry *entry = find_entry(watch, &specs[i]);
		const bool is_new = !entry;

		if (is_new)
			err = entry_new(&watch->targets, &specs[i], &entry);
		if (err)
			break;
		err = check_entry(watch->ctx, change, entry);
		if (err && is_new)
			entry_free(entry);
		if (err)
			break;
		change->is_new[change->n] = is_new;
		change->entries[change->n++] = entry;
	}
	return err;
}

static bool is_kept(const struct change *change, const struct entry *entry)
{
	for (size_t i = 0; i < change->n; i++)
		if (change->entries[i] == entry)
			return true;
	return false;
}

static int end_sources(struct target *target, const struct entry *owner,
		       int (*end)(struct target *target, size_t number))
{
	int err = 0;

	for (size_t i = target->n_sources; !err && i-- > 0;)
		if (target->sources[i]->owner == owner)
			err = end(target, i);
	return err;
}

static int end_entry(struct watch *watch, const struct entry *entry)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++)
		err = end_sources(watch->targets.list[i], entry, target_end_source);
	return err;
}

/* Where all programs are watched, those that somebody asked for until now are among them. */
static bool is_wanted(const struct watch *watch, struct target *target)
{
	for (size_t i = 0; i < watch->n_entries; i++) {
		if (watch->entries[i]->exe && watch->entries[i]->target != target)
			continue;
		target->is_discovered = !watch->entries[i]->exe;
		return true;
	}
	return false;
}

/* A new budget has not been exceeded yet. */
static int undo_cuts(struct watch *watch, struct target *target)
{
	const ptrdiff_t number = watch_find_target(watch, target->exe);
	int err = 0;

	target_forgive(target);
	for (size_t i = 0; !err && i < target->view.n_probes; i++)
		if (target->probe_records[i]->is_cut)
			err = watch_switch_counter(watch, (size_t)number, target->probes[i].name,
						   true);
	return err;
}

static int begin_search(struct watch *watch)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++) {
		err = undo_cuts(watch, watch->targets.list[i]);
		if (!err)
			err = target_set_problem(watch->targets.list[i], NULL);
	}
	return err;
}

/* What was wrong with the target under another entry is no problem of this one's. */
static int begin_entry(struct watch *watch, struct entry *entry)
{
	int err;

	if (!entry->exe)
		return begin_search(watch);
	err = targets_get(&watch->targets, entry->exe, &entry->target);
	if (err)
		return err;
	err = undo_cuts(watch, entry->target);
	if (!err && entry->first)
		err = entry_start(entry);
	if (!err)
		return target_set_problem(entry->target, NULL);
	/* It is tried again by the ticks. */
	return err == -ENOMEM ? err : target_set_problem(entry->target, ocp_error(watch->ctx));
}

/* What the entries that measure TARGET may cost together; 0 if one of them has no limit. */
static double budget_of(const struct watch *watch, const struct target *target)
{
	double sum = 0;

	for (size_t i = 0; i < watch->n_entries; i++) {
		const struct entry *entry = watch->entries[i];

		if (entry->exe && entry->target != target)
			continue;
		if (entry->measure->budget <= 0)
			return 0;
		sum += entry->measure->budget;
	}
	return sum;
}

static void tell_budgets(struct watch *watch)
{
	for (size_t i = 0; i < watch->targets.n; i++)
		watch->targets.list[i]->view.budget = budget_of(watch, watch->targets.list[i]);
}

/* In the order of the entries. What is asked for differently begins where the old way ended. */
static int commit(struct watch *watch, struct change *change)
{
	struct entry **old = watch->entries;
	const size_t n_old = watch->n_entries;
	int err = 0;

	for (size_t i = 0; i < n_old; i++)
		if (!is_kept(change, old[i])) {
			int its_err = end_entry(watch, old[i]);

			err = err ? err : its_err;
		}
	watch->entries = change->entries;
	watch->n_entries = change->n;
	for (size_t i = 0; i < change->n; i++) {
		int its_err = change->is_new[i] ? begin_entry(watch, change->entries[i]) : 0;

		err = err ? err : its_err;
	}
	for (size_t i = 0; i < n_old; i++)
		if (!is_kept(change, old[i]))
			entry_free(old[i]);
	free(old);
	for (size_t i = watch->targets.n; i-- > 0;) {
		int its_err = 0;

		if (is_wanted(watch, watch->targets.list[i]))
			its_err = target_collect_pids(watch->targets.list[i]);
		else
			targets_remove(&watch->targets, i);
		err = err ? err : its_err;
	}
	tell_budgets(watch);
	return err;
}

/*
 * Programs that were not watched before are attached now: if that fails there is nothing to take
 * back.
 */
static int start_early(struct watch *watch, struct change *change)
{
	int err = 0;

	for (size_t i = 0; !err && i < change->n; i++) {
		struct entry *entry = change->entries[i];
		const bool is_fresh =
			change->is_new[i] && entry->exe && watch_find_target(watch, entry->exe) < 0;

		if (is_fresh)
			err = source_attach(entry->first);
	}
	return err;
}

/* Then there is no other entry. */
static bool is_all(const struct watch_spec *specs, size_t n)
{
	return n == 1 && !specs[0].exe && !specs[0].pid;
}

static bool watches_all(const struct watch *watch)
{
	return watch->n_entries == 1 && !watch->entries[0]->exe;
}

int watch_set(struct watch *watch, const struct watch_spec *specs, size_t n)
{
	struct change change;
	int err;

	verdicts_set_all(watch->targets.verdicts, is_all(specs, n));
	err = prepare(watch, specs, n, &change);
	if (!err)
		err = start_early(watch, &change);
	if (err) {
		for (size_t i = 0; i < change.n; i++)
			if (change.is_new[i])
				entry_free(change.entries[i]);
		free(change.entries);
	} else {
		err = commit(watch, &change);
	}
	free(change.is_new);
	verdicts_set_all(watch->targets.verdicts, watches_all(watch));
	return err;
}

/* ---- ticks ---------------------------------------------------------------------------------- */

/* Now and then, so that there is always room for more; what it says of a row has been read then. */
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
			/* A stale source ends; the next one's attach is the end of its problem. */
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

static int follow_target(struct target *target, int64_t now_ns)
{
	int err = target_read(target);

	if (!err)
		err = target_collect_pids(target);
	if (!err)
		err = handlers_follow(target->ctx, &target->handlers, target->pids,
				      target->view.n_pids);
	if (err)
		return err;
	handlers_read(&target->handlers, target->probes, target->view.n_probes);
	/* What is too expensive would be found anew, and measured again, if it were forgotten. */
	if (target->view.n_pids || target->is_over_budget)
		target->idle_since_ns = 0;
	else if (!target->idle_since_ns)
		target->idle_since_ns = now_ns;
	return 0;
}

/* Columns that passed without a tick: the caller was late. */
static void skip_columns(struct watch *watch, int64_t dt_ns)
{
	size_t n = dt_ns > 0 ? (size_t)((dt_ns + TICK_NS / 2) / TICK_NS) : 1;

	for (n = n > WATCH_COLUMNS ? WATCH_COLUMNS : n; n > 1; n--, watch->n_columns++)
		for (size_t i = 0; i < watch->targets.n; i++)
			target_skip(watch->targets.list[i], watch->n_columns % WATCH_COLUMNS);
}

static void forget_idle(struct watch *watch, int64_t now_ns)
{
	for (size_t i = watch->targets.n; i-- > 0;) {
		const struct target *target = watch->targets.list[i];

		if (target->is_discovered && target->idle_since_ns &&
		    now_ns - target->idle_since_ns > FORGET_NS)
			targets_remove(&watch->targets, i);
	}
}

/* The probe of TARGET whose counting costs the most and can be done without; -1: there is none. */
static ptrdiff_t busiest_probe(const struct target *target)
{
	ptrdiff_t busiest = -1;

	for (size_t i = 0; i < target->view.n_probes; i++) {
		const struct watch_probe *probe = &target->probes[i];

		if (probe->is_counted && !probe->is_in_pair && probe->rate > 0 &&
		    (busiest < 0 || probe->rate > target->probes[busiest].rate))
			busiest = (ptrdiff_t)i;
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

/* Switch counters off, the busiest first, until the rest should cost no more than the budget. */
static int cut_costs(struct watch *watch, size_t number, const struct entry *entry, double share)
{
	struct target *target = watch->targets.list[number];
	const double budget = entry->measure->budget, too_much = share;
	ptrdiff_t probe;
	size_t n = 0;
	int err = 0;

	while (!err && n < MAX_CUTS && share > budget && (probe = busiest_probe(target)) >= 0) {
		share -= target->probes[probe].rate * target->view.cost_per_hit_ns / 1e9;
		err = watch_switch_counter(watch, number, target->probes[probe].name, false);
		target->probe_records[probe]->is_cut = !err;
		n += !err;
	}
	if (!err && share > budget) {
		target->is_over_budget = true;
		err = end_sources(target, entry, target_give_up_source);
	}
	if (err)
		return err == -ENOMEM ? err : target_set_problem(target, ocp_error(watch->ctx));
	if (target->is_over_budget)
		ctx_error(watch->ctx, -EDQUOT,
			  "measuring has stopped: it took %.0f%% of a core, more than the budget "
			  "of %g%%",
			  100 * too_much, 100 * budget);
	else
		ctx_error(watch->ctx, -EDQUOT,
			  "busiest counters switched off (%zu): measuring took %.0f%% of a core, "
			  "more than the budget of %g%%",
			  count_cuts(target), 100 * too_much, 100 * budget);
	return target_set_problem(target, ocp_error(watch->ctx));
}

/* What an entry's sources in one target cost is held against its budget. */
static int keep_budget(struct watch *watch, size_t number, const struct entry *entry)
{
	const struct target *target = watch->targets.list[number];
	double share = 0;

	for (size_t i = 0; i < target->n_sources; i++)
		if (target->sources[i]->owner == entry)
			share += target->sources[i]->cpu_overhead;
	if (entry->measure->budget <= 0 || share <= entry->measure->budget)
		return 0;
	return cut_costs(watch, number, entry, share);
}

static int keep_budgets(struct watch *watch)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++)
		for (size_t j = 0; !err && j < watch->n_entries; j++)
			err = keep_budget(watch, i, watch->entries[j]);
	return err;
}

int watch_tick(struct watch *watch)
{
	int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int err = 0;

	find_memory_expire(&watch->targets.known);
	for (size_t i = 0; !err && i < watch->targets.n; i++)
		err = refresh_sources(watch->targets.list[i], now_ns);
	for (size_t i = 0; !err && i < watch->n_entries; i++)
		err = entry_follow(watch->entries[i], &watch->targets, now_ns);
	for (size_t i = 0; !err && i < watch->targets.n; i++)
		err = follow_target(watch->targets.list[i], now_ns);
	if (err)
		return err;
	now_ns = clock_ns(CLOCK_MONOTONIC);
	skip_columns(watch, watch->tick_ns ? now_ns - watch->tick_ns : 0);
	for (size_t i = 0; i < watch->targets.n; i++)
		target_tick(watch->targets.list[i], watch->n_columns % WATCH_COLUMNS,
			    watch->tick_ns ? now_ns - watch->tick_ns : TICK_NS);
	watch->n_columns++;
	watch->tick_ns = now_ns;
	watch->column_time_ns = clock_ns(CLOCK_REALTIME);
	forget_idle(watch, now_ns);
	tell_budgets(watch);
	err = forget_rows(watch);
	if (err)
		return err;
	return keep_budgets(watch);
}

int watch_read(struct watch *watch)
{
	int err = 0;

	for (size_t i = 0; !err && i < watch->targets.n; i++)
		err = target_read(watch->targets.list[i]);
	return err;
}

/* ---- questions ------------------------------------------------------------------------------ */

size_t watch_target_count(const struct watch *watch)
{
	return watch->targets.n;
}

const struct watch_target *watch_target(const struct watch *watch, size_t target)
{
	return &watch->targets.list[target]->view;
}

ptrdiff_t watch_find_target(const struct watch *watch, const char *exe)
{
	for (size_t i = 0; i < watch->targets.n; i++)
		if (strcmp(watch->targets.list[i]->exe, exe) == 0)
			return (ptrdiff_t)i;
	return -1;
}

static int compare_name(const void *name, const void *probe)
{
	return strcmp(name, ((const struct watch_probe *)probe)->name);
}

ptrdiff_t watch_find_probe(const struct watch_target *target, const char *name)
{
	const struct watch_probe *probe = target->n_probes
						  ? bsearch(name, target->probes, target->n_probes,
							    sizeof(*target->probes), compare_name)
						  : NULL;

	return probe ? probe - target->probes : -1;
}

size_t watch_column_count(const struct watch *watch)
{
	return watch->n_columns < WATCH_COLUMNS ? watch->n_columns : WATCH_COLUMNS;
}

int64_t watch_column_time_ns(const struct watch *watch)
{
	return watch->column_time_ns;
}

double watch_probe_rate(const struct watch *watch, size_t target, size_t probe, size_t age)
{
	if (age >= watch->n_columns)
		return NAN;
	return watch->targets.list[target]
		->probe_records[probe]
		->rates[(watch->n_columns - 1 - age) % WATCH_COLUMNS];
}

const uint32_t *watch_pair_column(const struct watch *watch, size_t target, size_t pair, size_t age)
{
	const struct pair_record *record = watch->targets.list[target]->pair_records[pair];
	const size_t column = (watch->n_columns - 1 - age) % WATCH_COLUMNS;

	if (age >= watch->n_columns || !record->has_column[column])
		return NULL;
	return record->columns[column];
}

/* ---- switching ------------------------------------------------------------------------------ */

int watch_switch_handler(struct watch *watch, size_t number, const char *probe, bool on, size_t *n)
{
	struct target *target = watch->targets.list[number];
	int err;

	*n = 0;
	if (watch_find_probe(&target->view, probe) < 0)
		return ctx_error(watch->ctx, -ENOENT, "%s: no probe '%s'", target->exe, probe);
	if (!target->handlers.n)
		return ctx_error(watch->ctx, -ESRCH, "%s: no process runs it", target->exe);
	err = handlers_switch(watch->ctx, &target->handlers, probe, on, n);
	handlers_read(&target->handlers, target->probes, target->view.n_probes);
	return err;
}

/* The first N sources; one that cannot be switched back is no reason to leave the others. */
static void switch_back(struct target *target, size_t n, const char *probe, bool was_on)
{
	for (size_t i = 0; i < n; i++) {
		const int err = ocp_meter_switch(target->sources[i]->meter, probe, was_on);

		if (err && err != -ENOENT)
			ctx_log(target->ctx, OCP_LOG_WARN, "%s", ocp_error(target->ctx));
	}
}

/* In all sources that have the probe or, if that fails in one, in none. */
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
		return ctx_error(watch->ctx, -ENOENT, "%s: no probe '%s'", target->exe, probe);
	err = switch_in_sources(target, probe, on, !target->probe_records[at]->is_off);
	if (err)
		return err;
	target->probe_records[at]->is_off = !on;
	target->probe_records[at]->is_cut = false;
	target->probes[at].is_counted = on;
	return 0;
}

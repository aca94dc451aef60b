// SPDX-License-Identifier: MIT
/* The work of a watch at each tick: find processes, read meters, advance the history. */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "watch/watch_state.h"

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
 * Set *NEEDED to whether TARGET must be kept. A target without processes is kept if it was given
 * up, since its file would otherwise be found and measured again. But in a container, such a target
 * is kept only as long as a process runs its file.
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
 * Called before column number n_columns of the minute is filled. If this column is the first of a
 * column of the quarter hour, begin the column of the quarter hour.
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

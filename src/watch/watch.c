// SPDX-License-Identifier: MIT
#include "watch/watch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "program/item.h"
#include "watch/watch_state.h"

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

/* Switch the counter in all sources that have PROBE or, if one of them fails, in none. */
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

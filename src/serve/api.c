// SPDX-License-Identifier: MIT
/*
 * Written by hand and not as a tree of json-c's objects: the status of 10 000 probes is asked for
 * each second by each page that is open.
 */
#include "serve/api.h"

#include <math.h>

#include "base/clock.h"
#include "cli/pair_note.h"

enum { API_VERSION = 2 };

/* ,"NAME": before a value; NAME is a literal with both. */
#define add_key(out, literal) body_lit(out, ",\"" literal "\":")

static void add_rate(struct body *out, double rate)
{
	if (isnan(rate))
		body_lit(out, "null");
	else
		body_real(out, rate, 3);
}

static void add_bool(struct body *out, bool value)
{
	body_str(out, value ? "true" : "false");
}

static void add_head(struct body *out, int64_t time_ns)
{
	body_lit(out, "{\"version\":");
	body_u64(out, API_VERSION);
	add_key(out, "time");
	body_scaled(out, (uint64_t)(time_ns / 1000000), 3);
	add_key(out, "interval");
	body_u64(out, WATCH_TICK_MS / 1000);
}

/* ---- status --------------------------------------------------------------------------------- */

static void add_processes(struct body *out, const struct watch_target *target)
{
	add_key(out, "processes");
	if (!target->knows_pids) {
		body_lit(out, "null");
		return;
	}
	body_lit(out, "[");
	for (size_t i = 0; i < target->n_pids; i++) {
		if (i)
			body_lit(out, ",");
		body_u64(out, (uint64_t)target->pids[i]);
	}
	body_lit(out, "]");
}

static void add_cost(struct body *out, const struct watch_target *target)
{
	add_key(out, "cost");
	body_lit(out, "{\"cost_per_hit_ns\":");
	body_real(out, target->cost_per_hit_ns, 1);
	add_key(out, "cpu_overhead");
	body_real(out, target->cpu_overhead, 6);
	add_key(out, "seconds");
	body_real(out, target->cpu_overhead_seconds, 6);
	add_key(out, "budget");
	if (target->budget > 0)
		body_real(out, target->budget, 6);
	else
		body_lit(out, "null");
	body_lit(out, "}");
}

static void add_losses(struct body *out, const struct watch_losses *losses)
{
	add_key(out, "losses");
	body_lit(out, "{\"pair_map_full\":");
	body_u64(out, losses->pair_map_full);
	add_key(out, "pair_not_keyed");
	body_u64(out, losses->pair_not_keyed);
	add_key(out, "rows_full");
	body_u64(out, losses->rows_full);
	add_key(out, "children_full");
	body_u64(out, losses->children_full);
	add_key(out, "filter_mismatches");
	body_u64(out, losses->filter_mismatches);
	body_lit(out, "}");
}

static void add_probe(struct body *out, const struct watch_probe *probe)
{
	static const char *const handlers[] = {
		[WATCH_HANDLER_UNKNOWN] = "\"unknown\"",
		[WATCH_HANDLER_OFF] = "\"off\"",
		[WATCH_HANDLER_ON] = "\"on\"",
		[WATCH_HANDLER_MIXED] = "\"mixed\"",
	};

	body_lit(out, "{\"probe\":");
	body_json(out, probe->name);
	add_key(out, "hits");
	body_u64(out, probe->hits);
	add_key(out, "rate");
	add_rate(out, probe->rate);
	add_key(out, "sites");
	body_u64(out, probe->n_sites);
	add_key(out, "counted");
	add_bool(out, probe->is_counted);
	add_key(out, "in_pair");
	add_bool(out, probe->is_in_pair);
	add_key(out, "handler");
	body_str(out, handlers[probe->handler]);
	add_key(out, "enabled");
	body_u64(out, probe->n_enabled);
	/* Mostly there are none, and the probes are many. */
	if (probe->n_uses_without_site) {
		add_key(out, "uses_without_site");
		body_u64(out, probe->n_uses_without_site);
	}
	body_lit(out, "}");
}

static void add_pair(struct body *out, const struct watch_pair *pair)
{
	const struct ocp_pair *sum = &pair->sum;
	char note[PAIR_NOTE_BYTES];

	body_lit(out, "{\"start\":");
	body_json(out, pair->start);
	add_key(out, "stop");
	body_json(out, pair->stop);
	add_key(out, "count");
	body_u64(out, sum->count);
	add_key(out, "sum_ns");
	body_u64(out, sum->sum_ns);
	add_key(out, "min_ns");
	body_u64(out, sum->min_ns);
	add_key(out, "max_ns");
	body_u64(out, sum->max_ns);
	add_key(out, "open");
	body_u64(out, sum->open);
	add_key(out, "orphan_starts");
	body_u64(out, sum->orphan_starts);
	add_key(out, "orphan_stops");
	body_u64(out, sum->orphan_stops);
	add_key(out, "map_full");
	body_u64(out, sum->map_full);
	add_key(out, "not_keyed");
	body_u64(out, sum->not_keyed);
	add_key(out, "rate");
	add_rate(out, pair->rate);
	add_key(out, "p50_ns");
	body_u64(out, pair->p50_ns);
	add_key(out, "p99_ns");
	body_u64(out, pair->p99_ns);
	add_key(out, "note");
	body_json(out, pair_note(note, pair->start, pair->stop, sum) ? note : NULL);
	body_lit(out, "}");
}

static void add_rows(struct body *out, const struct watch_target *target)
{
	add_key(out, "rows");
	body_lit(out, "[");
	for (size_t i = 0; i < target->n_rows; i++) {
		const struct watch_row *row = &target->rows[i];

		body_str(out, i ? ",{\"probe\":" : "{\"probe\":");
		body_json(out, row->probe);
		add_key(out, "pid");
		body_u64(out, (uint64_t)row->pid);
		add_key(out, "hits");
		body_u64(out, row->hits);
		body_lit(out, "}");
	}
	body_lit(out, "]");
}

/* With the path, what tells the target from others. */
static void add_identity(struct body *out, const struct watch_target *target)
{
	body_json(out, target->exe);
	body_lit(out, ",\"pid\":null,\"container_id\":");
	body_json(out, target->container);
	add_key(out, "pod_uid");
	body_json(out, target->pod);
}

static void add_target(struct body *out, const struct watch_target *target)
{
	body_lit(out, "{\"exe\":");
	add_identity(out, target);
	add_key(out, "up");
	add_bool(out, target->is_up);
	add_processes(out, target);
	add_key(out, "problem");
	body_json(out, target->problem);
	add_cost(out, target);
	add_losses(out, &target->losses);
	add_key(out, "filter_mismatch");
	body_json(out, target->filter_mismatch);
	add_key(out, "probes");
	body_lit(out, "[");
	for (size_t i = 0; i < target->n_probes; i++) {
		if (i)
			body_lit(out, ",");
		add_probe(out, &target->probes[i]);
	}
	body_lit(out, "]");
	add_key(out, "pairs");
	body_lit(out, "[");
	for (size_t i = 0; i < target->n_pairs; i++) {
		if (i)
			body_lit(out, ",");
		add_pair(out, &target->pairs[i]);
	}
	body_lit(out, "]");
	if (target->n_rows)
		add_rows(out, target);
	body_lit(out, "}");
}

void api_write_status(struct body *out, const struct watch *watch, bool has_control)
{
	add_head(out, clock_ns(CLOCK_REALTIME));
	add_key(out, "control");
	add_bool(out, has_control);
	add_key(out, "targets");
	body_lit(out, "[");
	for (size_t i = 0; i < watch_target_count(watch); i++) {
		if (i)
			body_lit(out, ",\n");
		add_target(out, watch_target(watch, i));
	}
	body_lit(out, "]}\n");
}

/* ---- history -------------------------------------------------------------------------------- */

/*
 * Two of the kernel's buckets are one here: 4 an octave are what a heat map can show. From FIRST
 * on, which is even, there are N of them.
 */
struct span {
	size_t first, n;
};

static const uint32_t *column_of(const struct watch *watch, size_t target, size_t pair, size_t age)
{
	return watch_pair_column(watch, target, pair, age);
}

/* What of a pair's buckets is not empty in any column; something around 1 ms if all are. */
static struct span find_span(const struct watch *watch, size_t target, size_t pair)
{
	size_t low = OCP_BUCKETS, high = 0;

	for (size_t age = 0; age < watch_column_count(watch); age++) {
		const uint32_t *column = column_of(watch, target, pair, age);

		for (size_t i = 0; column && i < OCP_BUCKETS; i++) {
			if (!column[i])
				continue;
			low = i < low ? i : low;
			high = i > high ? i : high;
		}
	}
	if (low == OCP_BUCKETS) {
		low = 0;
		while (ocp_bucket_start(low + 2) < 1000000)
			low += 2;
		high = low;
	}
	low &= ~(size_t)1;
	return (struct span){ low, (high - low) / 2 + 1 };
}

static void add_column(struct body *out, const uint32_t *column, struct span span)
{
	if (!column) {
		body_lit(out, "null");
		return;
	}
	body_lit(out, "[");
	for (size_t i = 0; i < span.n; i++) {
		const uint32_t *two = &column[span.first + 2 * i];

		if (i)
			body_lit(out, ",");
		body_u64(out, (uint64_t)two[0] + two[1]);
	}
	body_lit(out, "]");
}

static void add_pair_history(struct body *out, const struct watch *watch, size_t target,
			     size_t number)
{
	const struct watch_pair *pair = &watch_target(watch, target)->pairs[number];
	const struct span span = find_span(watch, target, number);

	body_lit(out, "{\"start\":");
	body_json(out, pair->start);
	add_key(out, "stop");
	body_json(out, pair->stop);
	add_key(out, "bounds_ns");
	body_lit(out, "[");
	for (size_t i = 0; i <= span.n; i++) {
		if (i)
			body_lit(out, ",");
		body_u64(out, ocp_bucket_start(span.first + 2 * i));
	}
	body_lit(out, "]");
	add_key(out, "columns");
	body_lit(out, "[");
	for (size_t age = watch_column_count(watch); age-- > 0;) {
		add_column(out, column_of(watch, target, number, age), span);
		if (age)
			body_lit(out, ",");
	}
	body_lit(out, "]}");
}

static void add_probe_history(struct body *out, const struct watch *watch, size_t target,
			      size_t probe)
{
	body_lit(out, "{\"probe\":");
	body_json(out, watch_target(watch, target)->probes[probe].name);
	add_key(out, "rates");
	body_lit(out, "[");
	for (size_t age = watch_column_count(watch); age-- > 0;) {
		add_rate(out, watch_probe_rate(watch, target, probe, age));
		if (age)
			body_lit(out, ",");
	}
	body_lit(out, "]}");
}

static void add_probe_histories(struct body *out, const struct watch *watch, size_t target)
{
	body_lit(out, ",\"probes\":[");
	for (size_t i = 0; i < watch_target(watch, target)->n_probes; i++) {
		if (i)
			body_lit(out, ",");
		add_probe_history(out, watch, target, i);
	}
	body_lit(out, "]");
}

void api_write_history(struct body *out, const struct watch *watch, bool only_pairs)
{
	add_head(out, watch_column_time_ns(watch));
	add_key(out, "targets");
	body_lit(out, "[");
	for (size_t t = 0; t < watch_target_count(watch); t++) {
		const struct watch_target *target = watch_target(watch, t);

		body_str(out, t ? ",\n{\"exe\":" : "{\"exe\":");
		add_identity(out, target);
		if (!only_pairs)
			add_probe_histories(out, watch, t);
		add_key(out, "pairs");
		body_lit(out, "[");
		for (size_t i = 0; i < target->n_pairs; i++) {
			if (i)
				body_lit(out, ",");
			add_pair_history(out, watch, t, i);
		}
		body_lit(out, "]}");
	}
	body_lit(out, "]}\n");
}

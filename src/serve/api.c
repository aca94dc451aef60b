// SPDX-License-Identifier: MIT
/*
 * Write the state and the history of a watch as JSON. The text is appended directly, without a tree
 * of json-c objects, for speed: each open page requests the status of up to 10 000 probes every
 * second.
 */
#include "serve/api.h"

#include <math.h>

#include "base/clock.h"
#include "cli/pair_note.h"

enum { API_VERSION = 2 };

/*
 * Append ,"LITERAL": to OUT; a value follows. The comma, quotes and colon are joined with LITERAL
 * at compile time.
 */
#define add_key(out, literal) strbuf_lit(out, ",\"" literal "\":")

static void add_rate(struct strbuf *out, double rate)
{
	if (isnan(rate))
		strbuf_lit(out, "null");
	else
		strbuf_real(out, rate, 3);
}

static void add_bool(struct strbuf *out, bool value)
{
	strbuf_str(out, value ? "true" : "false");
}

/*
 * Append the members with which each document begins. TICKS: the interval between two values, in
 * units of WATCH_TICK_MS.
 */
static void add_head(struct strbuf *out, int64_t time_ns, size_t ticks)
{
	strbuf_lit(out, "{\"version\":");
	strbuf_u64(out, API_VERSION);
	add_key(out, "time");
	strbuf_scaled(out, (uint64_t)(time_ns / 1000000), 3);
	add_key(out, "interval");
	strbuf_u64(out, ticks * WATCH_TICK_MS / 1000);
}

/* ---- status --------------------------------------------------------------------------------- */

static void add_process_ids(struct strbuf *out, const struct watch_target *target)
{
	add_key(out, "processes");
	if (!target->knows_pids) {
		strbuf_lit(out, "null");
		return;
	}
	strbuf_lit(out, "[");
	for (size_t i = 0; i < target->n_pids; i++) {
		if (i)
			strbuf_lit(out, ",");
		strbuf_u64(out, (uint64_t)target->pids[i]);
	}
	strbuf_lit(out, "]");
}

static void add_cost(struct strbuf *out, const struct watch_target *target)
{
	add_key(out, "cost");
	strbuf_lit(out, "{\"cost_per_hit_ns\":");
	strbuf_real(out, target->cost_per_hit_ns, 1);
	add_key(out, "cpu_overhead");
	strbuf_real(out, target->cpu_overhead, 6);
	add_key(out, "seconds");
	strbuf_real(out, target->cpu_overhead_seconds, 6);
	add_key(out, "budget");
	if (target->budget > 0)
		strbuf_real(out, target->budget, 6);
	else
		strbuf_lit(out, "null");
	strbuf_lit(out, "}");
}

static void add_losses_object(struct strbuf *out, const struct watch_losses *losses)
{
	add_key(out, "losses");
	strbuf_lit(out, "{\"pair_map_full\":");
	strbuf_u64(out, losses->pair_map_full);
	add_key(out, "pair_not_keyed");
	strbuf_u64(out, losses->pair_not_keyed);
	add_key(out, "rows_full");
	strbuf_u64(out, losses->rows_full);
	add_key(out, "children_full");
	strbuf_u64(out, losses->children_full);
	add_key(out, "filter_mismatches");
	strbuf_u64(out, losses->filter_mismatches);
	strbuf_lit(out, "}");
}

static void add_probe_object(struct strbuf *out, const struct watch_probe *probe)
{
	static const char *const handlers[] = {
		[WATCH_HANDLER_UNKNOWN] = "\"unknown\"", [WATCH_HANDLER_OFF] = "\"off\"",
		[WATCH_HANDLER_ON] = "\"on\"",		 [WATCH_HANDLER_MIXED] = "\"mixed\"",
		[WATCH_HANDLER_NONE] = "\"none\"",
	};

	strbuf_lit(out, "{\"probe\":");
	strbuf_json(out, probe->name);
	add_key(out, "hits");
	strbuf_u64(out, probe->hits);
	add_key(out, "rate");
	add_rate(out, probe->rate);
	add_key(out, "sites");
	strbuf_u64(out, probe->n_sites);
	add_key(out, "counted");
	add_bool(out, probe->is_counted);
	add_key(out, "in_pair");
	add_bool(out, probe->is_in_pair);
	add_key(out, "handler");
	strbuf_str(out, handlers[probe->handler]);
	add_key(out, "enabled");
	strbuf_u64(out, probe->n_enabled);
	/* Omitted if it is 0, to keep the reply small. */
	if (probe->n_uses_without_site) {
		add_key(out, "uses_without_site");
		strbuf_u64(out, probe->n_uses_without_site);
	}
	strbuf_lit(out, "}");
}

static void add_pair_object(struct strbuf *out, const struct watch_pair *pair)
{
	const struct ocp_pair *sum = &pair->sum;
	char note[PAIR_NOTE_BYTES];

	strbuf_lit(out, "{\"start\":");
	strbuf_json(out, pair->start);
	add_key(out, "stop");
	strbuf_json(out, pair->stop);
	add_key(out, "count");
	strbuf_u64(out, sum->count);
	add_key(out, "sum_ns");
	strbuf_u64(out, sum->sum_ns);
	add_key(out, "min_ns");
	strbuf_u64(out, sum->min_ns);
	add_key(out, "max_ns");
	strbuf_u64(out, sum->max_ns);
	add_key(out, "open");
	strbuf_u64(out, sum->open);
	add_key(out, "orphan_starts");
	strbuf_u64(out, sum->orphan_starts);
	add_key(out, "orphan_stops");
	strbuf_u64(out, sum->orphan_stops);
	add_key(out, "map_full");
	strbuf_u64(out, sum->map_full);
	add_key(out, "not_keyed");
	strbuf_u64(out, sum->not_keyed);
	add_key(out, "mismatched");
	strbuf_u64(out, sum->mismatched);
	add_key(out, "rate");
	add_rate(out, pair->rate);
	add_key(out, "p50_ns");
	strbuf_u64(out, pair->p50_ns);
	add_key(out, "p99_ns");
	strbuf_u64(out, pair->p99_ns);
	add_key(out, "note");
	strbuf_json(out, pair_note(note, pair->start, pair->stop, sum) ? note : NULL);
	strbuf_lit(out, "}");
}

static void add_gc_words(struct strbuf *out, const struct watch_gc *gc)
{
	add_key(out, "heap_words");
	strbuf_u64(out, gc->heap_words);
	add_key(out, "top_heap_words");
	strbuf_u64(out, gc->top_heap_words);
	add_key(out, "allocated_words");
	strbuf_u64(out, gc->allocated_words);
	add_key(out, "minor_words");
	strbuf_u64(out, gc->minor_words);
	add_key(out, "promoted_words");
	strbuf_u64(out, gc->promoted_words);
	add_key(out, "major_words");
	strbuf_u64(out, gc->major_words);
}

/* Add the numbers of the garbage collector. Members whose values cannot be read are omitted. */
static void add_gc(struct strbuf *out, const struct watch_gc *gc)
{
	strbuf_lit(out, ",\"gc\":{\"processes\":");
	strbuf_u64(out, gc->n_processes);
	add_key(out, "minor_collections");
	strbuf_u64(out, gc->minor_collections);
	add_key(out, "major_collections");
	strbuf_u64(out, gc->major_collections);
	if (gc->has_compactions) {
		add_key(out, "compactions");
		strbuf_u64(out, gc->compactions);
	}
	if (gc->has_words)
		add_gc_words(out, gc);
	add_key(out, "minor_rate");
	add_rate(out, gc->minor_rate);
	add_key(out, "major_rate");
	add_rate(out, gc->major_rate);
	add_key(out, "allocated_rate");
	add_rate(out, gc->allocated_rate);
	add_key(out, "promoted_rate");
	add_rate(out, gc->promoted_rate);
	add_key(out, "pause_share");
	if (isnan(gc->pause_share))
		strbuf_lit(out, "null");
	else
		strbuf_real(out, gc->pause_share, 6);
	strbuf_lit(out, "}");
}

static void add_row_array(struct strbuf *out, const struct watch_target *target)
{
	add_key(out, "rows");
	strbuf_lit(out, "[");
	for (size_t i = 0; i < target->n_rows; i++) {
		const struct watch_row *row = &target->rows[i];

		strbuf_str(out, i ? ",{\"probe\":" : "{\"probe\":");
		strbuf_json(out, row->probe);
		add_key(out, "pid");
		strbuf_u64(out, (uint64_t)row->pid);
		add_key(out, "hits");
		strbuf_u64(out, row->hits);
		strbuf_lit(out, "}");
	}
	strbuf_lit(out, "]");
}

/* Add the path, the container and the pod, which together identify the target. */
static void add_identity(struct strbuf *out, const struct watch_target *target)
{
	strbuf_json(out, target->exe);
	strbuf_lit(out, ",\"pid\":null,\"container_id\":");
	strbuf_json(out, target->container);
	add_key(out, "pod_uid");
	strbuf_json(out, target->pod);
}

static void add_target(struct strbuf *out, const struct watch_target *target)
{
	strbuf_lit(out, "{\"exe\":");
	add_identity(out, target);
	add_key(out, "up");
	add_bool(out, target->is_up);
	add_process_ids(out, target);
	add_key(out, "engine");
	strbuf_json(out, watch_engine_name(target->engine));
	add_key(out, "problem");
	strbuf_json(out, target->problem);
	add_cost(out, target);
	add_losses_object(out, &target->losses);
	add_key(out, "filter_mismatch");
	strbuf_json(out, target->filter_mismatch);
	add_key(out, "probes");
	strbuf_lit(out, "[");
	for (size_t i = 0; i < target->n_probes; i++) {
		if (i)
			strbuf_lit(out, ",");
		add_probe_object(out, &target->probes[i]);
	}
	strbuf_lit(out, "]");
	add_key(out, "pairs");
	strbuf_lit(out, "[");
	for (size_t i = 0; i < target->n_pairs; i++) {
		if (i)
			strbuf_lit(out, ",");
		add_pair_object(out, &target->pairs[i]);
	}
	strbuf_lit(out, "]");
	if (target->n_rows)
		add_row_array(out, target);
	if (target->gc.is_known)
		add_gc(out, &target->gc);
	strbuf_lit(out, "}");
}

void api_write_status(struct strbuf *out, const struct watch *watch, bool has_control,
		      bool has_profiles, bool has_heaps)
{
	add_head(out, clock_ns(CLOCK_REALTIME), 1);
	add_key(out, "control");
	add_bool(out, has_control);
	add_key(out, "profile");
	add_bool(out, has_profiles);
	add_key(out, "memprof");
	add_bool(out, has_heaps);
	add_key(out, "targets");
	strbuf_lit(out, "[");
	for (size_t i = 0; i < watch_target_count(watch); i++) {
		if (i)
			strbuf_lit(out, ",\n");
		add_target(out, watch_target(watch, i));
	}
	strbuf_lit(out, "]}\n");
}

/* ---- history -------------------------------------------------------------------------------- */

/* Identifies a pair, and the time span of its history. */
struct pair_history {
	const struct watch *watch;
	enum watch_span span;
	size_t target, pair;
};

/*
 * N pairs of adjacent kernel buckets, beginning with bucket FIRST, which is even. The two buckets
 * of each pair are merged into one, since a heat map has room for only 4 per octave.
 */
struct bucket_range {
	size_t first, n;
};

static const uint32_t *column_of(const struct pair_history *pair, size_t age)
{
	return watch_pair_column(pair->watch, pair->span, pair->target, pair->pair, age);
}

/*
 * Return the smallest range that contains the nonempty buckets of all columns. If all buckets are
 * empty, return one pair of buckets near 1 ms.
 */
static struct bucket_range find_range(const struct pair_history *pair)
{
	const size_t n = watch_column_count(pair->watch, pair->span);
	size_t low = OCP_BUCKETS, high = 0;

	for (size_t age = 0; age < n; age++) {
		const uint32_t *column = column_of(pair, age);

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
	return (struct bucket_range){ low, (high - low) / 2 + 1 };
}

static void add_column(struct strbuf *out, const uint32_t *column, struct bucket_range range)
{
	if (!column) {
		strbuf_lit(out, "null");
		return;
	}
	strbuf_lit(out, "[");
	for (size_t i = 0; i < range.n; i++) {
		const uint32_t *two = &column[range.first + 2 * i];

		if (i)
			strbuf_lit(out, ",");
		strbuf_u64(out, (uint64_t)two[0] + two[1]);
	}
	strbuf_lit(out, "]");
}

static void add_pair_history(struct strbuf *out, const struct pair_history *pair)
{
	const struct watch_pair *names =
		&watch_target(pair->watch, pair->target)->pairs[pair->pair];
	const struct bucket_range range = find_range(pair);

	strbuf_lit(out, "{\"start\":");
	strbuf_json(out, names->start);
	add_key(out, "stop");
	strbuf_json(out, names->stop);
	add_key(out, "bounds_ns");
	strbuf_lit(out, "[");
	for (size_t i = 0; i <= range.n; i++) {
		if (i)
			strbuf_lit(out, ",");
		strbuf_u64(out, ocp_bucket_start(range.first + 2 * i));
	}
	strbuf_lit(out, "]");
	add_key(out, "columns");
	strbuf_lit(out, "[");
	for (size_t age = watch_column_count(pair->watch, pair->span); age-- > 0;) {
		add_column(out, column_of(pair, age), range);
		if (age)
			strbuf_lit(out, ",");
	}
	strbuf_lit(out, "]}");
}

/* Return true if the probe was hit in SPAN. */
static bool was_hit(const struct watch *watch, enum watch_span span, size_t target, size_t probe)
{
	for (size_t age = 0; age < watch_column_count(watch, span); age++)
		if (watch_probe_rate(watch, span, target, probe, age) > 0)
			return true;
	return false;
}

static void add_probe_history(struct strbuf *out, const struct watch *watch, enum watch_span span,
			      size_t target, size_t probe)
{
	strbuf_lit(out, "{\"probe\":");
	strbuf_json(out, watch_target(watch, target)->probes[probe].name);
	add_key(out, "rates");
	strbuf_lit(out, "[");
	for (size_t age = watch_column_count(watch, span); age-- > 0;) {
		add_rate(out, watch_probe_rate(watch, span, target, probe, age));
		if (age)
			strbuf_lit(out, ",");
	}
	strbuf_lit(out, "]}");
}

/*
 * Add the rates of the probes. For the quarter of an hour, omit probes without hits: most probes
 * are not hit.
 */
static void add_probe_histories(struct strbuf *out, const struct watch *watch, enum watch_span span,
				size_t target)
{
	bool is_first = true;

	strbuf_lit(out, ",\"probes\":[");
	for (size_t i = 0; i < watch_target(watch, target)->n_probes; i++) {
		if (span == WATCH_QUARTER_HOUR && !was_hit(watch, span, target, i))
			continue;
		if (!is_first)
			strbuf_lit(out, ",");
		is_first = false;
		add_probe_history(out, watch, span, target, i);
	}
	strbuf_lit(out, "]");
}

void api_write_history(struct strbuf *out, const struct watch *watch, enum watch_span span,
		       bool only_pairs)
{
	add_head(out, watch_column_time_ns(watch, span), watch_column_ticks(span));
	add_key(out, "targets");
	strbuf_lit(out, "[");
	for (size_t t = 0; t < watch_target_count(watch); t++) {
		const struct watch_target *target = watch_target(watch, t);

		strbuf_str(out, t ? ",\n{\"exe\":" : "{\"exe\":");
		add_identity(out, target);
		if (!only_pairs)
			add_probe_histories(out, watch, span, t);
		add_key(out, "pairs");
		strbuf_lit(out, "[");
		for (size_t i = 0; i < target->n_pairs; i++) {
			if (i)
				strbuf_lit(out, ",");
			add_pair_history(out, &(struct pair_history){ watch, span, t, i });
		}
		strbuf_lit(out, "]}");
	}
	strbuf_lit(out, "]}\n");
}

// SPDX-License-Identifier: MIT
#include "serve/api.h"

#include <math.h>

#include "base/clock.h"
#include "cli/pair_note.h"
#include "serve/json.h"

/* Add RATE; null if it is not known. */
#define add_rate(j, name, rate)                                                                    \
	do {                                                                                       \
		if (isnan(rate))                                                                   \
			json_null(j, name);                                                        \
		else                                                                               \
			json_real(j, name, rate, 3);                                               \
	} while (0)

/*
 * Begin a document with the members that all documents have. TICKS: the interval between two
 * values, in units of WATCH_TICK_MS.
 */
static void open_document(struct json *j, int64_t time_ns, size_t ticks)
{
	json_open(j, "{");
	json_u64(j, "version", API_VERSION);
	json_scaled(j, "time", (uint64_t)(time_ns / 1000000), 3);
	json_u64(j, "interval", ticks * WATCH_TICK_MS / 1000);
}

/* ---- status --------------------------------------------------------------------------------- */

static void add_process_ids(struct json *j, const struct watch_target *target)
{
	if (!target->knows_pids) {
		json_null(j, "processes");
		return;
	}
	json_open_member(j, "processes", "[");
	for (size_t i = 0; i < target->n_pids; i++)
		json_element(j, (uint64_t)target->pids[i]);
	json_close(j, "]");
}

static void add_cost(struct json *j, const struct watch_target *target)
{
	json_open_member(j, "cost", "{");
	json_real(j, "cost_per_hit_ns", target->cost_per_hit_ns, 1);
	json_real(j, "cpu_overhead", target->cpu_overhead, 6);
	json_real(j, "seconds", target->cpu_overhead_seconds, 6);
	if (target->budget > 0)
		json_real(j, "budget", target->budget, 6);
	else
		json_null(j, "budget");
	json_close(j, "}");
}

static void add_losses_object(struct json *j, const struct watch_losses *losses)
{
	json_open_member(j, "losses", "{");
	json_u64(j, "pair_map_full", losses->pair_map_full);
	json_u64(j, "pair_not_keyed", losses->pair_not_keyed);
	json_u64(j, "rows_full", losses->rows_full);
	json_u64(j, "children_full", losses->children_full);
	json_u64(j, "filter_mismatches", losses->filter_mismatches);
	json_close(j, "}");
}

/* Add how the metrics are split by an argument. The page shows only the sums. */
static void add_label_object(struct json *j, const struct watch_target *target)
{
	json_open_member(j, "label", "{");
	json_text(j, "name", target->label->name);
	json_u64(j, "values", target->label->n_values - 1);
	json_u64(j, "limit", target->label->limit);
	json_u64(j, "unreadable_values", target->losses.unreadable_values);
	json_close(j, "}");
}

static void add_probe_object(struct json *j, const struct watch_probe *probe)
{
	static const char *const handlers[] = {
		[WATCH_HANDLER_UNKNOWN] = "unknown", [WATCH_HANDLER_OFF] = "off",
		[WATCH_HANDLER_ON] = "on",	     [WATCH_HANDLER_MIXED] = "mixed",
		[WATCH_HANDLER_NONE] = "none",
	};

	json_open(j, "{");
	json_text(j, "probe", probe->name);
	json_u64(j, "hits", probe->hits);
	add_rate(j, "rate", probe->rate);
	json_u64(j, "sites", probe->n_sites);
	json_bool(j, "counted", probe->is_counted);
	json_bool(j, "in_pair", probe->is_in_pair);
	json_text(j, "handler", handlers[probe->handler]);
	json_u64(j, "enabled", probe->n_enabled);
	/* Omitted if it is 0, to keep the reply small. */
	if (probe->n_uses_without_site)
		json_u64(j, "uses_without_site", probe->n_uses_without_site);
	json_close(j, "}");
}

static void add_pair_object(struct json *j, const struct watch_pair *pair)
{
	const struct ocp_pair *sum = &pair->sum;
	char note[PAIR_NOTE_BYTES];

	json_open(j, "{");
	json_text(j, "start", pair->start);
	json_text(j, "stop", pair->stop);
	json_u64(j, "count", sum->count);
	json_u64(j, "sum_ns", sum->sum_ns);
	json_u64(j, "min_ns", sum->min_ns);
	json_u64(j, "max_ns", sum->max_ns);
	json_u64(j, "open", sum->open);
	json_u64(j, "orphan_starts", sum->orphan_starts);
	json_u64(j, "orphan_stops", sum->orphan_stops);
	json_u64(j, "map_full", sum->map_full);
	json_u64(j, "not_keyed", sum->not_keyed);
	json_u64(j, "mismatched", sum->mismatched);
	add_rate(j, "rate", pair->rate);
	json_u64(j, "p50_ns", pair->p50_ns);
	json_u64(j, "p99_ns", pair->p99_ns);
	json_text(j, "note", pair_note(note, pair->start, pair->stop, sum) ? note : NULL);
	json_close(j, "}");
}

/* Add the numbers of the garbage collector. Members whose values cannot be read are omitted. */
static void add_gc(struct json *j, const struct watch_gc *gc)
{
	json_open_member(j, "gc", "{");
	json_u64(j, "processes", gc->n_processes);
	json_u64(j, "minor_collections", gc->minor_collections);
	json_u64(j, "major_collections", gc->major_collections);
	if (gc->has_compactions)
		json_u64(j, "compactions", gc->compactions);
	if (gc->has_words) {
		json_u64(j, "heap_words", gc->heap_words);
		json_u64(j, "top_heap_words", gc->top_heap_words);
		json_u64(j, "allocated_words", gc->allocated_words);
		json_u64(j, "minor_words", gc->minor_words);
		json_u64(j, "promoted_words", gc->promoted_words);
		json_u64(j, "major_words", gc->major_words);
	}
	add_rate(j, "minor_rate", gc->minor_rate);
	add_rate(j, "major_rate", gc->major_rate);
	add_rate(j, "allocated_rate", gc->allocated_rate);
	add_rate(j, "promoted_rate", gc->promoted_rate);
	if (isnan(gc->pause_share))
		json_null(j, "pause_share");
	else
		json_real(j, "pause_share", gc->pause_share, 6);
	json_close(j, "}");
}

static void add_row_array(struct json *j, const struct watch_target *target)
{
	json_open_member(j, "rows", "[");
	for (size_t i = 0; i < target->n_rows; i++) {
		json_open(j, "{");
		json_text(j, "probe", target->rows[i].probe);
		json_u64(j, "pid", (uint64_t)target->rows[i].pid);
		json_u64(j, "hits", target->rows[i].hits);
		json_close(j, "}");
	}
	json_close(j, "]");
}

/*
 * Begin an object with the path, the container and the pod, which together identify the target.
 */
static void open_target(struct json *j, const struct watch_target *target)
{
	json_line(j);
	json_open(j, "{");
	json_text(j, "exe", target->exe);
	json_null(j, "pid");
	json_text(j, "container_id", target->container);
	json_text(j, "pod_uid", target->pod);
}

static void add_target(struct json *j, const struct watch_target *target)
{
	open_target(j, target);
	json_bool(j, "up", target->is_up);
	add_process_ids(j, target);
	json_text(j, "engine", watch_engine_name(target->engine));
	json_text(j, "problem", target->problem);
	add_cost(j, target);
	add_losses_object(j, &target->losses);
	json_text(j, "filter_mismatch", target->filter_mismatch);
	if (target->label)
		add_label_object(j, target);
	json_open_member(j, "probes", "[");
	for (size_t i = 0; i < target->n_probes; i++)
		add_probe_object(j, &target->probes[i]);
	json_close(j, "]");
	json_open_member(j, "pairs", "[");
	for (size_t i = 0; i < target->n_pairs; i++)
		add_pair_object(j, &target->pairs[i]);
	json_close(j, "]");
	if (target->n_rows)
		add_row_array(j, target);
	if (target->gc.is_known)
		add_gc(j, &target->gc);
	json_close(j, "}");
}

void api_write_status(struct strbuf *out, const struct watch *watch, bool has_control,
		      bool has_profiles, bool has_heaps, bool has_recordings)
{
	struct json j = { .out = out };

	open_document(&j, clock_ns(CLOCK_REALTIME), 1);
	json_bool(&j, "control", has_control);
	json_bool(&j, "profile", has_profiles);
	json_bool(&j, "memprof", has_heaps);
	json_bool(&j, "record", has_recordings);
	json_open_member(&j, "targets", "[");
	for (size_t i = 0; i < watch_target_count(watch); i++)
		add_target(&j, watch_target(watch, i));
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
 * of each pair are merged into one, since a heat map has room for only 4 buckets per octave.
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

static void add_column(struct json *j, const uint32_t *column, struct bucket_range range)
{
	if (!column) {
		json_real_element(j, false, 0, 1);
		return;
	}
	json_open(j, "[");
	for (size_t i = 0; i < range.n; i++) {
		const uint32_t *two = &column[range.first + 2 * i];

		json_element(j, (uint64_t)two[0] + two[1]);
	}
	json_close(j, "]");
}

static void add_pair_history(struct json *j, const struct pair_history *pair)
{
	const struct watch_pair *names =
		&watch_target(pair->watch, pair->target)->pairs[pair->pair];
	const struct bucket_range range = find_range(pair);

	json_open(j, "{");
	json_text(j, "start", names->start);
	json_text(j, "stop", names->stop);
	json_open_member(j, "bounds_ns", "[");
	for (size_t i = 0; i <= range.n; i++)
		json_element(j, ocp_bucket_start(range.first + 2 * i));
	json_close(j, "]");
	json_open_member(j, "columns", "[");
	for (size_t age = watch_column_count(pair->watch, pair->span); age-- > 0;)
		add_column(j, column_of(pair, age), range);
	json_close(j, "]");
	json_close(j, "}");
}

/* Return true if the probe was hit in SPAN. */
static bool was_hit(const struct watch *watch, enum watch_span span, size_t target, size_t probe)
{
	for (size_t age = 0; age < watch_column_count(watch, span); age++)
		if (watch_probe_rate(watch, span, target, probe, age) > 0)
			return true;
	return false;
}

static void add_probe_history(struct json *j, const struct watch *watch, enum watch_span span,
			      size_t target, size_t probe)
{
	json_open(j, "{");
	json_text(j, "probe", watch_target(watch, target)->probes[probe].name);
	json_open_member(j, "rates", "[");
	for (size_t age = watch_column_count(watch, span); age-- > 0;) {
		const double rate = watch_probe_rate(watch, span, target, probe, age);

		json_real_element(j, !isnan(rate), rate, 3);
	}
	json_close(j, "]");
	json_close(j, "}");
}

/*
 * Add the rates of the probes. For the quarter of an hour, omit probes without hits: most probes
 * are not hit.
 */
static void add_probe_histories(struct json *j, const struct watch *watch, enum watch_span span,
				size_t target)
{
	json_open_member(j, "probes", "[");
	for (size_t i = 0; i < watch_target(watch, target)->n_probes; i++)
		if (span != WATCH_QUARTER_HOUR || was_hit(watch, span, target, i))
			add_probe_history(j, watch, span, target, i);
	json_close(j, "]");
}

void api_write_history(struct strbuf *out, const struct watch *watch, enum watch_span span,
		       bool only_pairs)
{
	struct json j = { .out = out };

	open_document(&j, watch_column_time_ns(watch, span), watch_column_ticks(span));
	json_open_member(&j, "targets", "[");
	for (size_t t = 0; t < watch_target_count(watch); t++) {
		const struct watch_target *target = watch_target(watch, t);

		open_target(&j, target);
		if (!only_pairs)
			add_probe_histories(&j, watch, span, t);
		json_open_member(&j, "pairs", "[");
		for (size_t i = 0; i < target->n_pairs; i++)
			add_pair_history(&j, &(struct pair_history){ watch, span, t, i });
		json_close(&j, "]");
		json_close(&j, "}");
	}
	strbuf_lit(out, "]}\n");
}

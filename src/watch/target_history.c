// SPDX-License-Identifier: MIT
/* The history of a target: the last minute by seconds, and the last quarter of an hour. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "watch/target.h"

struct probe_record *target_new_probe_record(void)
{
	struct probe_record *record = calloc(1, sizeof(*record));

	for (size_t i = 0; record && i < WATCH_COLUMNS; i++)
		record->rates[i] = NAN;
	for (size_t i = 0; record && i < QUARTER_RING; i++)
		record->quarters[i] = NAN;
	return record;
}

/*
 * Return the quantile of the pair's times in the last minute. It is an estimate within its bucket,
 * but not above the pair's longest time.
 */
static uint64_t minute_quantile(const struct pair_record *record, const struct watch_pair *pair,
				double quantile)
{
	const uint64_t ns = ocp_bucket_quantile(record->minute, quantile);

	return ns < pair->sum.max_ns ? ns : pair->sum.max_ns;
}

static void tick_pair(struct target *target, size_t i, size_t column, size_t quarter,
		      double seconds)
{
	struct pair_record *record = target->pair_records[i];
	struct watch_pair *pair = &target->pairs[i];

	pair->rate = target->had_tick ? (double)(pair->sum.count - record->count_at_tick) / seconds
				      : NAN;
	record->count_at_tick = pair->sum.count;
	for (size_t j = 0; j < OCP_BUCKETS; j++) {
		record->minute[j] -= record->columns[column][j];
		record->columns[column][j] =
			target->had_tick
				? (uint32_t)(record->buckets[j] - record->buckets_at_tick[j])
				: 0;
		record->minute[j] += record->columns[column][j];
		record->quarters[quarter][j] += record->columns[column][j];
		record->buckets_at_tick[j] = record->buckets[j];
	}
	record->has_column[column] = target->had_tick;
	record->has_quarter[quarter] |= target->had_tick;
	pair->p50_ns = minute_quantile(record, pair, 0.5);
	pair->p99_ns = minute_quantile(record, pair, 0.99);
}

static void tick_probe(struct target *target, size_t i, size_t column, size_t quarter,
		       int64_t dt_ns)
{
	struct probe_record *record = target->probe_records[i];
	struct watch_probe *probe = &target->probes[i];
	const uint64_t hits = probe->hits - record->hits_at_tick;

	probe->rate = target->had_tick ? (double)hits * 1e9 / (double)dt_ns : NAN;
	/* The rate of a probe that is not counted is unknown, not 0. */
	if ((record->is_off || target->is_over_budget) && !hits)
		probe->rate = NAN;
	record->hits_at_tick = probe->hits;
	record->rates[column] = (float)probe->rate;
	if (isnan(probe->rate))
		return;
	record->quarter_hits += hits;
	record->quarter_ns += dt_ns;
	record->quarters[quarter] =
		(float)((double)record->quarter_hits * 1e9 / (double)record->quarter_ns);
}

/*
 * Compute the CPU overhead of SOURCE in the last tick. The cost of a hit is known only some time
 * after the attach. The first tick that knows the cost takes all hits since the attach, and divides
 * by the time since then. Otherwise, a budget would not notice a program that is busy only at
 * first.
 */
static void tick_cost(struct source *source, int64_t dt_ns)
{
	source->cpu_overhead = 0;
	source->uncharged_ns += dt_ns;
	if (!source->asked_costs)
		return;
	source->cpu_overhead = (double)(source->hits - source->charged_hits) *
			       source->cost_per_hit_ns / (double)source->uncharged_ns;
	source->charged_hits = source->hits;
	source->uncharged_ns = 0;
}

void target_tick(struct target *target, size_t column, size_t quarter, int64_t dt_ns)
{
	const double seconds = (double)dt_ns / 1e9;

	target->view.cpu_overhead = 0;
	for (size_t i = 0; i < target->n_sources; i++) {
		tick_cost(target->sources[i], dt_ns);
		target->view.cpu_overhead += target->sources[i]->cpu_overhead;
	}
	for (size_t i = 0; i < target->view.n_probes; i++)
		tick_probe(target, i, column, quarter, dt_ns);
	for (size_t i = 0; i < target->view.n_pairs; i++)
		tick_pair(target, i, column, quarter, seconds);
	collector_tick(&target->collector, target->pairs, target->view.n_pairs, dt_ns,
		       &target->view.gc);
	target->had_tick = true;
}

void target_begin_quarter(struct target *target, size_t quarter)
{
	for (size_t i = 0; i < target->view.n_probes; i++) {
		struct probe_record *record = target->probe_records[i];

		record->quarter_hits = 0;
		record->quarter_ns = 0;
		record->quarters[quarter] = NAN;
	}
	for (size_t i = 0; i < target->view.n_pairs; i++) {
		struct pair_record *record = target->pair_records[i];

		memset(record->quarters[quarter], 0, sizeof(record->quarters[quarter]));
		record->has_quarter[quarter] = false;
	}
}

void target_skip(struct target *target, size_t column)
{
	for (size_t i = 0; i < target->view.n_probes; i++)
		target->probe_records[i]->rates[column] = NAN;
	for (size_t i = 0; i < target->view.n_pairs; i++) {
		struct pair_record *record = target->pair_records[i];

		for (size_t j = 0; j < OCP_BUCKETS; j++)
			record->minute[j] -= record->columns[column][j];
		memset(record->columns[column], 0, sizeof(record->columns[column]));
		record->has_column[column] = false;
	}
}

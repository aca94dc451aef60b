// SPDX-License-Identifier: MIT
/*
 * Samples as JSON, one object per line: {"version":4,"type":"interval"|"total",...}. The version
 * changes when members change their meaning; it stays the same when members are added.
 */
#include "measure/args/value.h"
#include "tool/cpu_shares.h"
#include "tool/group_output.h"
#include "tool/json.h"
#include "tool/stack_output.h"
#include "tool/writer.h"

#include <math.h>
#include <stdio.h>

static struct json_object *hits_json(const struct report *report, const struct ocp_hits *row)
{
	struct json_object *object = json_object_new_object();

	json_add_string(object, "name", row->probe);
	json_add_uint(object, "hits", row->hits);
	json_add_double(object, "hits_per_s", report_rate(report, row->hits));
	if (row->image) {
		json_add_string(object, "exe", row->image);
		json_add_uint(object, "address", row->va);
		json_add_string(object, "function", row->symbol);
		json_add_uint(object, "function_offset", row->symbol_off);
		json_add_string(object, "file", row->source);
		json_add_uint(object, "line", (uint64_t)row->line);
		json_add_known_int(object, "column", row->source, row->column);
	}
	if (row->pid) {
		json_add_uint(object, "pid", (uint64_t)row->pid);
		if (row->tid)
			json_add_uint(object, "tid", (uint64_t)row->tid);
		json_add_string(object, "comm", row->comm);
	}
	return object;
}

/* Return an array of the nonempty buckets. */
static struct json_object *buckets_json(const uint64_t *buckets)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < OCP_BUCKETS; i++) {
		struct json_object *object;

		if (!buckets[i])
			continue;
		object = json_object_new_object();
		json_add_uint(object, "from_ns", ocp_bucket_start(i));
		json_add_uint(object, "below_ns", ocp_bucket_start(i + 1));
		json_add_uint(object, "count", buckets[i]);
		json_object_array_add(array, object);
	}
	return array;
}

struct json_object *json_of_pair(const struct ocp_pair *pair)
{
	static const struct {
		const char *name;
		double quantile;
	} quantiles[] = {
		{ "p50_ns", 0.5 }, { "p90_ns", 0.9 }, { "p99_ns", 0.99 }, { "p999_ns", 0.999 }
	};
	struct json_object *object = json_object_new_object();

	json_add_string(object, "start", pair->start);
	json_add_string(object, "stop", pair->stop);
	json_add_uint(object, "count", pair->count);
	json_add_uint(object, "sum_ns", pair->sum_ns);
	json_add_uint(object, "min_ns", pair->min_ns);
	json_add_uint(object, "max_ns", pair->max_ns);
	json_add_double(object, "mean_ns",
			pair->count ? (double)pair->sum_ns / (double)pair->count : 0);
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
		json_add_uint(object, quantiles[i].name,
			      ocp_pair_quantile_ns(pair, quantiles[i].quantile));
	json_add_uint(object, "starts", pair->starts);
	json_add_uint(object, "orphan_starts", pair->orphan_starts);
	json_add_uint(object, "orphan_stops", pair->orphan_stops);
	json_add_uint(object, "map_full", pair->map_full);
	json_add_uint(object, "not_keyed", pair->not_keyed);
	json_add_uint(object, "mismatched", pair->mismatched);
	json_add_uint(object, "open", pair->open);
	json_object_object_add(object, "buckets", buckets_json(pair->buckets));
	return object;
}

struct json_object *json_of_float(double real)
{
	char text[FLOAT_TEXT_BYTES];
	struct json_object *object;

	float_text(text, real);
	if (isfinite(real))
		return json_object_new_double_s(real, text);
	object = json_object_new_object();
	json_add_string(object, "float", text);
	return object;
}

static void add_float(struct json_object *object, const char *name, double value)
{
	json_object_object_add(object, name, json_of_float(value));
}

static struct json_object *float_buckets_json(const uint64_t *buckets)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < OCP_FLOAT_BUCKETS; i++) {
		struct json_object *bucket;

		if (!buckets[i])
			continue;
		bucket = json_object_new_object();
		add_float(bucket, "from", ocp_float_bucket_start(i));
		add_float(bucket, "below", ocp_float_bucket_start(i + 1));
		json_add_uint(bucket, "count", buckets[i]);
		json_object_array_add(array, bucket);
	}
	return array;
}

static struct json_object *floats_json(const struct ocp_float_histogram *floats)
{
	struct json_object *object = json_object_new_object();

	json_add_uint(object, "count", floats->count);
	add_float(object, "sum", floats->sum);
	add_float(object, "mean", floats->mean);
	add_float(object, "min", floats->min);
	add_float(object, "max", floats->max);
	json_add_uint(object, "nan", floats->nan);
	json_add_uint(object, "inf", floats->inf);
	json_add_uint(object, "minus_inf", floats->minus_inf);
	json_object_object_add(object, "buckets", float_buckets_json(floats->buckets));
	return object;
}

static struct json_object *histogram_json(const struct ocp_histogram *histogram)
{
	struct json_object *object = json_object_new_object(), *buckets = json_object_new_array();

	json_add_string(object, "name", histogram->probe);
	json_add_uint(object, "arg", histogram->arg);
	if (histogram->arg_name[0])
		json_add_string(object, "arg_name", histogram->arg_name);
	json_add_uint(object, "count", histogram->count);
	json_add_int(object, "sum", histogram->sum);
	json_add_double(object, "mean", histogram->mean);
	json_add_int(object, "min", histogram->min);
	json_add_int(object, "max", histogram->max);
	json_add_uint(object, "not_int", histogram->not_int);
	json_add_uint(object, "not_number", histogram->not_number);
	for (size_t i = 0; i < OCP_SIGNED_BUCKETS; i++) {
		struct json_object *bucket;

		if (!histogram->buckets[i])
			continue;
		bucket = json_object_new_object();
		json_add_int(bucket, "from", ocp_signed_bucket_start(i));
		json_add_int(bucket, "below", ocp_signed_bucket_start(i + 1));
		json_add_uint(bucket, "count", histogram->buckets[i]);
		json_object_array_add(buckets, bucket);
	}
	json_object_object_add(object, "buckets", buckets);
	if (histogram->floats)
		json_object_object_add(object, "floats", floats_json(histogram->floats));
	return object;
}

static struct json_object *losses_json(const struct report *report)
{
	const struct ocp_losses *losses = ocp_sample_losses(report->sample);
	struct json_object *object = json_object_new_object();

	json_add_uint(object, "rows_full", losses->rows_full);
	json_add_uint(object, "children_full", losses->children_full);
	json_add_uint(object, "passed_over", losses->passed_over);
	json_add_uint(object, "filtered", losses->filtered);
	json_add_uint(object, "prints_dropped", losses->prints_dropped);
	json_add_uint(object, "prints_limited", losses->prints_limited);
	if (report->has_slow) {
		json_add_uint(object, "slow_limited", losses->slow_limited);
		json_add_uint(object, "slow_dropped", losses->slow_dropped);
		json_add_uint(object, "slow_unkept", losses->slow_unkept);
	}
	json_add_uint(object, "filter_mismatches", losses->filter_mismatches);
	if (losses->filter_mismatch)
		json_add_string(object, "filter_mismatch", losses->filter_mismatch);
	return object;
}

/* Return an array of the probes that have uses without a site. Other probes have no entry. */
static struct json_object *uses_without_site_json(const struct ocp_sample *sample)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < ocp_sample_probe_count(sample); i++) {
		const struct ocp_probe_hits *probe = ocp_sample_probe(sample, i);
		struct json_object *object;

		if (!probe->n_uses_without_site)
			continue;
		object = json_object_new_object();
		json_add_string(object, "name", probe->probe);
		json_add_uint(object, "uses", probe->n_uses);
		json_add_uint(object, "without_site", probe->n_uses_without_site);
		json_object_array_add(array, object);
	}
	return array;
}

static void write_sample_json(const struct report *report)
{
	struct json_object *top = json_object_new_object(), *probes = json_object_new_array(),
			   *pairs = json_object_new_array(), *histograms = json_object_new_array();
	char wall[WALL_BYTES];

	json_add_int(top, "version", JSON_VERSION);
	json_add_string(top, "type", report->is_total ? "total" : "interval");
	json_add_double(top, "elapsed_s", (double)report->at_ns / 1e9);
	json_add_double(top, "span_s", (double)ocp_sample_time_ns(report->sample) / 1e9);
	if (report->wall_ns)
		json_add_string(top, "time", utc_text(wall, report->wall_ns));
	for (size_t i = 0; i < ocp_sample_hits_count(report->sample); i++)
		json_object_array_add(probes,
				      hits_json(report, ocp_sample_hits(report->sample, i)));
	json_object_object_add(top, "probes", probes);
	for (size_t i = 0; i < ocp_sample_pair_count(report->sample); i++)
		json_object_array_add(pairs, json_of_pair(ocp_sample_pair(report->sample, i)));
	json_object_object_add(top, "pairs", pairs);
	for (size_t i = 0; i < ocp_sample_histogram_count(report->sample); i++)
		json_object_array_add(histograms,
				      histogram_json(ocp_sample_histogram(report->sample, i)));
	json_object_object_add(top, "histograms", histograms);
	add_groups_json(top, report);
	json_object_object_add(top, "uses_without_site", uses_without_site_json(report->sample));
	if (report->stacks)
		add_stacks_json(top, report);
	if (report->prints && report->is_total)
		json_add_uint(top, "printed", report->n_printed);
	if (report->has_slow && report->is_total)
		json_add_uint(top, "slow_printed", report->n_slow);
	if (report->has_slow)
		json_add_uint(top, "slow", ocp_sample_losses(report->sample)->slow);
	json_object_object_add(top, "losses", losses_json(report));
	if (report->is_total && report->engine)
		json_add_string(top, "engine", report->engine);
	if (report->is_total && report->engine_reason)
		json_add_string(top, "engine_reason", report->engine_reason);
	if (report->is_total) {
		json_add_uint(top, "stepped_hits", ocp_sample_stepped_hits(report->sample));
		json_add_double(top, "cost_per_hit_ns",
				ocp_sample_cost_per_hit_ns(report->sample, report->costs));
		if (ocp_sample_pair_count(report->sample))
			json_add_double(top, "empty_pair_ns", report->costs->empty_pair_ns);
		if (ocp_sample_pair_count(report->sample) &&
		    report->costs->empty_stepped_pair_ns > 0)
			json_add_double(top, "empty_stepped_pair_ns",
					report->costs->empty_stepped_pair_ns);
		json_add_double(top, "cpu_overhead", report_cost(report));
		if (report->share) {
			json_add_double(top, "program_cpu_s", report->share->cpu_ns / 1e9);
			json_add_double(top, "program_share", cpu_share_of(report->share));
		}
	}
	json_print(top, JSON_C_TO_STRING_PLAIN);
	fflush(stdout);
}

const struct writer json_writer = { .write = write_sample_json,
				    .write_hit = write_hit_json,
				    .write_slow = write_slow_json };

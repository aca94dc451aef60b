// SPDX-License-Identifier: MIT
#include "tool/result_rows.h"

#include <stdio.h>
#include <time.h>

/* ---- rates and texts ------------------------------------------------------------------------ */

double report_rate(const struct report *report, uint64_t events)
{
	const int64_t ns = ocp_sample_time_ns(report->sample);

	return ns > 0 ? (double)events * 1e9 / (double)ns : 0;
}

double report_cost(const struct report *report)
{
	const int64_t ns = ocp_sample_time_ns(report->sample);

	return ns > 0 ? (double)ocp_sample_all_hits(report->sample) *
				ocp_sample_cost_per_hit_ns(report->sample, report->costs) /
				(double)ns
		      : 0;
}

enum { NS_PER_S = 1000000000, NS_PER_US = 1000, NS_PER_MS = 1000000 };

const char *time_of_day_text(char text[WALL_BYTES], int64_t wall_ns, int digits)
{
	const time_t seconds = (time_t)(wall_ns / NS_PER_S);
	const int64_t rest = wall_ns % NS_PER_S;
	struct tm tm = { 0 };
	size_t n;

	localtime_r(&seconds, &tm);
	n = strftime(text, WALL_BYTES, "%H:%M:%S", &tm);
	snprintf(text + n, WALL_BYTES - n, ".%0*d", digits,
		 (int)(rest / (digits == 3 ? NS_PER_MS : NS_PER_US)));
	return text;
}

const char *utc_text(char text[WALL_BYTES], int64_t wall_ns)
{
	const time_t seconds = (time_t)(wall_ns / NS_PER_S);
	struct tm tm = { 0 };
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(text, WALL_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, WALL_BYTES - n, ".%06dZ", (int)(wall_ns % NS_PER_S / NS_PER_US));
	return text;
}

/* Write NS with three digits and a unit, as in "12.5us". */
const char *print_time(char *text, double ns)
{
	static const struct {
		double ns;
		const char *unit;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		double value = ns / units[i].ns;

		if (value >= 1) {
			snprintf(text, TIME_BYTES, "%.*f%s",
				 value < 10    ? 2
				 : value < 100 ? 1
					       : 0,
				 value, units[i].unit);
			return text;
		}
	}
	snprintf(text, TIME_BYTES, "%.0fns", ns);
	return text;
}

/* ---- fields --------------------------------------------------------------------------------- */

static void add_field(struct result_row *row, const struct result_field *field)
{
	if (row->n < sizeof(row->fields) / sizeof(row->fields[0]))
		row->fields[row->n++] = *field;
}

static void add_number(struct result_row *row, const char *name, const char *column,
		       enum field_kind kind, uint64_t number)
{
	add_field(row, &(const struct result_field){
			       .name = name, .column = column, .kind = kind, .number = number });
}

static void add_real(struct result_row *row, const char *name, const char *column,
		     enum field_kind kind, double real)
{
	add_field(row, &(const struct result_field){
			       .name = name, .column = column, .kind = kind, .real = real });
}

static void add_int(struct result_row *row, const char *name, const char *column, int64_t integer)
{
	add_field(row,
		  &(const struct result_field){
			  .name = name, .column = column, .kind = FIELD_INT, .integer = integer });
}

/* Add the start and the stop of PAIR: separately in JSON, and in one column of CSV. */
static void add_pair_name(struct result_row *row, const struct ocp_pair *pair, const char *stop)
{
	result_add_text(row, "start", NULL, pair->start);
	result_add_text(row, "stop", NULL, pair->stop);
	add_field(row, &(const struct result_field){ .column = "name",
						     .kind = FIELD_PAIR,
						     .text = pair->start,
						     .stop = stop });
}

void result_add_text(struct result_row *row, const char *name, const char *column, const char *text)
{
	add_field(row, &(const struct result_field){
			       .name = name, .column = column, .kind = FIELD_TEXT, .text = text });
}

void result_add_uint(struct result_row *row, const char *name, const char *column, uint64_t number)
{
	add_number(row, name, column, FIELD_UINT, number);
}

void result_add_rate(struct result_row *row, const char *name, const char *column,
		     const struct report *report, uint64_t events)
{
	add_real(row, name, column, FIELD_RATE, report_rate(report, events));
}

void result_add_seconds(struct result_row *row, const char *name, const char *column,
			double seconds)
{
	add_real(row, name, column, FIELD_SECONDS, seconds);
}

/* ---- hits and pairs ------------------------------------------------------------------------- */

static void add_site(struct result_row *row, const struct ocp_hits *hits)
{
	result_add_text(row, "exe", "file", hits->image);
	add_number(row, "address", "address", FIELD_ADDRESS, hits->va);
	result_add_text(row, "function", "function", hits->symbol);
	result_add_uint(row, "function_offset", NULL, hits->symbol_off);
	result_add_text(row, "file", "source", hits->source);
	result_add_uint(row, "line", hits->source ? "line" : NULL, (uint64_t)hits->line);
	if (hits->source)
		add_int(row, "column", "column", hits->column);
	else
		add_number(row, "column", "column", FIELD_NULL, 0);
}

void result_of_hits(struct result_row *row, const struct report *report,
		    const struct ocp_hits *hits)
{
	row->n = 0;
	result_add_text(row, "name", "name", hits->probe);
	result_add_uint(row, "hits", "count", hits->hits);
	result_add_rate(row, "hits_per_s", "per_s", report, hits->hits);
	if (hits->image)
		add_site(row, hits);
	if (!hits->pid)
		return;
	result_add_uint(row, "pid", "pid", (uint64_t)hits->pid);
	if (hits->tid)
		result_add_uint(row, "tid", "tid", (uint64_t)hits->tid);
	result_add_text(row, "comm", "comm", hits->comm);
}

static double mean_ns(const struct ocp_pair *pair)
{
	return pair->count ? (double)pair->sum_ns / (double)pair->count : 0;
}

static void add_quantile(struct result_row *row, const char *name, const struct ocp_pair *pair,
			 double quantile)
{
	add_number(row, name, name, FIELD_NS, ocp_pair_quantile_ns(pair, quantile));
}

void result_of_pair(struct result_row *row, const struct report *report,
		    const struct ocp_pair *pair)
{
	row->n = 0;
	add_pair_name(row, pair, *pair->stop ? pair->stop : NULL);
	result_add_uint(row, "count", "count", pair->count);
	if (report)
		result_add_rate(row, NULL, "per_s", report, pair->count);
	add_number(row, "sum_ns", "sum_ns", FIELD_NS, pair->sum_ns);
	add_number(row, "min_ns", "min_ns", FIELD_NS, pair->min_ns);
	add_number(row, "max_ns", "max_ns", FIELD_NS, pair->max_ns);
	add_real(row, "mean_ns", NULL, FIELD_MEAN_NS, mean_ns(pair));
	add_quantile(row, "p50_ns", pair, 0.5);
	add_quantile(row, "p90_ns", pair, 0.9);
	add_quantile(row, "p99_ns", pair, 0.99);
	add_quantile(row, "p999_ns", pair, 0.999);
	result_add_uint(row, "starts", NULL, pair->starts);
	result_add_uint(row, "orphan_starts", "orphan_starts", pair->orphan_starts);
	result_add_uint(row, "orphan_stops", "orphan_stops", pair->orphan_stops);
	result_add_uint(row, "map_full", "map_full", pair->map_full);
	result_add_uint(row, "not_keyed", NULL, pair->not_keyed);
	result_add_uint(row, "mismatched", "mismatched", pair->mismatched);
	result_add_uint(row, "open", "open", pair->open);
}

/* ---- histograms ----------------------------------------------------------------------------- */

void result_of_ints(struct result_row *row, const struct report *report,
		    const struct ocp_histogram *histogram)
{
	row->n = 0;
	result_add_text(row, "name", "name", histogram->probe);
	result_add_uint(row, "arg", "arg", histogram->arg);
	if (histogram->arg_name[0])
		result_add_text(row, "arg_name", NULL, histogram->arg_name);
	result_add_uint(row, "count", "count", histogram->count);
	result_add_rate(row, NULL, "per_s", report, histogram->count);
	add_int(row, "sum", "sum", histogram->sum);
	add_real(row, "mean", NULL, FIELD_MEAN, histogram->mean);
	add_int(row, "min", "min", histogram->min);
	add_int(row, "max", "max", histogram->max);
	result_add_uint(row, "not_int", "not_int", histogram->not_int);
	result_add_uint(row, "not_number", NULL, histogram->not_number);
}

/* Begin a row about a part of HISTOGRAM. In JSON, the part is a member of the histogram. */
static void begin_part(struct result_row *row, const struct report *report,
		       const struct ocp_histogram *histogram, uint64_t count)
{
	row->n = 0;
	result_add_text(row, NULL, "name", histogram->probe);
	result_add_uint(row, NULL, "arg", histogram->arg);
	result_add_rate(row, NULL, "per_s", report, count);
}

void result_of_floats(struct result_row *row, const struct report *report,
		      const struct ocp_histogram *histogram)
{
	const struct ocp_float_histogram *floats = histogram->floats;

	begin_part(row, report, histogram, floats->count);
	result_add_uint(row, "count", "count", floats->count);
	add_real(row, "sum", "sum", FIELD_FLOAT, floats->sum);
	add_real(row, "mean", NULL, FIELD_FLOAT, floats->mean);
	add_real(row, "min", "min", FIELD_FLOAT, floats->min);
	add_real(row, "max", "max", FIELD_FLOAT, floats->max);
	result_add_uint(row, "nan", NULL, floats->nan);
	result_add_uint(row, "inf", NULL, floats->inf);
	result_add_uint(row, "minus_inf", NULL, floats->minus_inf);
}

void result_of_int_bucket(struct result_row *row, const struct report *report,
			  const struct ocp_histogram *histogram, size_t bucket)
{
	const int64_t below = ocp_signed_bucket_start(bucket + 1);

	begin_part(row, report, histogram, histogram->buckets[bucket]);
	add_int(row, "from", "min", ocp_signed_bucket_start(bucket));
	add_int(row, "below", NULL, below);
	add_int(row, NULL, "max", below - 1);
	result_add_uint(row, "count", "count", histogram->buckets[bucket]);
}

void result_of_float_bucket(struct result_row *row, const struct report *report,
			    const struct ocp_histogram *histogram, double from, double below,
			    uint64_t count)
{
	begin_part(row, report, histogram, count);
	add_real(row, "from", "min", FIELD_FLOAT, from);
	add_real(row, "below", "max", FIELD_FLOAT, below);
	result_add_uint(row, "count", "count", count);
}

/* ---- groups and losses ---------------------------------------------------------------------- */

static void add_group_counts(struct result_row *row, const struct report *report,
			     const struct value_group *group)
{
	struct ocp_pair pair;

	if (!group->times) {
		result_add_uint(row, "hits", "count", group->hits);
		result_add_rate(row, "hits_per_s", "per_s", report, group->hits);
		return;
	}
	pair = value_group_pair(group);
	result_add_uint(row, "count", "count", pair.count);
	result_add_rate(row, NULL, "per_s", report, pair.count);
	add_number(row, "sum_ns", "sum_ns", FIELD_NS, pair.sum_ns);
	add_real(row, "mean_ns", NULL, FIELD_MEAN_NS, mean_ns(&pair));
	add_number(row, "min_ns", "min_ns", FIELD_NS, pair.min_ns);
	add_number(row, "max_ns", "max_ns", FIELD_NS, pair.max_ns);
	add_quantile(row, "p50_ns", &pair, 0.5);
	add_quantile(row, "p99_ns", &pair, 0.99);
}

void result_of_group_counts(struct result_row *row, const struct report *report,
			    const struct value_group *group)
{
	row->n = 0;
	add_group_counts(row, report, group);
}

void result_of_group(struct result_row *row, const struct report *report,
		     const struct value_group *group, const char *arg)
{
	const struct ocp_pair *pair =
		group->times ? ocp_sample_pair(report->sample, group->number) : NULL;

	row->n = 0;
	if (pair)
		add_pair_name(row, pair, pair->stop);
	else
		result_add_text(row, "name", "name", group->probe);
	result_add_text(row, "arg", NULL, arg);
	if (group->is_others)
		add_number(row, "others", NULL, FIELD_TRUE, 0);
	else
		add_field(row, &(const struct result_field){ .name = "value",
							     .column = "args",
							     .kind = FIELD_ARGUMENT,
							     .group = group });
	if (!group->is_others && group->value.type == FILTER_TYPE_UNREADABLE)
		result_add_text(row, "why", NULL, "cannot be read");
	if (!group->is_others && group->value.type == FILTER_TYPE_OTHER)
		result_add_text(row, "why", NULL, "neither a number nor a string");
	if (!group->is_others && group->value.type == FILTER_TYPE_NOT_INT)
		result_add_text(row, "why", NULL, "not an int");
	add_group_counts(row, report, group);
}

void result_of_losses(struct result_row *row, const struct report *report)
{
	const struct ocp_losses *losses = ocp_sample_losses(report->sample);

	row->n = 0;
	result_add_uint(row, "rows_full", "count", losses->rows_full);
	result_add_uint(row, "children_full", "count", losses->children_full);
	result_add_uint(row, "passed_over", "count", losses->passed_over);
	result_add_uint(row, "filtered", "count", losses->filtered);
	result_add_uint(row, "prints_dropped", "count", losses->prints_dropped);
	result_add_uint(row, "prints_limited", "count", losses->prints_limited);
	if (report->has_slow) {
		result_add_uint(row, "slow_limited", NULL, losses->slow_limited);
		result_add_uint(row, "slow_dropped", NULL, losses->slow_dropped);
		result_add_uint(row, "slow_unkept", NULL, losses->slow_unkept);
	}
	result_add_uint(row, "filter_mismatches", "count", losses->filter_mismatches);
	if (losses->filter_mismatch)
		result_add_text(row, "filter_mismatch", NULL, losses->filter_mismatch);
}

// SPDX-License-Identifier: MIT
/*
 * Samples: converts a reading of an engine into rows with names, and subtracts samples from each
 * other. A sample does not change while the meter continues to count. The rows of a sample point to
 * names that the meter owns, and to memory that the sample owns.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/search.h"
#include "base/thread_name.h"
#include "measure/by_value.h"
#include "measure/domain_pairs.h"
#include "measure/float_sum.h"
#include "measure/meter.h"
#include "measure/spending.h"
#include "args.h"

/* ---- losses --------------------------------------------------------------------------------- */

static void losses_free(struct ocp_losses *losses)
{
	free((char *)losses->filter_mismatch);
	losses->filter_mismatch = NULL;
}

/*
 * LAST is the last mismatch, as encoded by measure_mismatch(). Set *MISMATCH to a text that
 * describes it.
 */
static int describe_mismatch(const struct site_table *table, const struct arg_requests *requests,
			     uint64_t last, const char **mismatch)
{
	static const char *const types[FILTER_TYPES] = {
		[FILTER_TYPE_UNREADABLE] = "cannot be read",
		[FILTER_TYPE_INT] = "is an int",
		[FILTER_TYPE_FLOAT] = "is a float",
		[FILTER_TYPE_STRING] = "is a string",
		[FILTER_TYPE_OTHER] = "is neither a number nor a string",
		[FILTER_TYPE_NOT_INT] = "is not an int",
	};
	const uint32_t probe_index = (uint32_t)last, what = (uint32_t)(last >> 32);
	const uint32_t type = filter_mismatch_type(what), arg = filter_mismatch_arg(what);
	char name[OCP_ARG_NAME_BYTES];
	char *text;

	/* The maps of a pinned meter are input from outside: check the numbers. */
	if (probe_index >= table->n_probes || type >= FILTER_TYPES || arg >= ARGS_ALL)
		return 0;
	/* The names of arguments are not stored with a pinned meter. */
	if (arg < ARGS_MAX)
		snprintf(name, sizeof(name), "arg%u", arg);
	else
		snprintf(name, sizeof(name), "%s",
			 arg < ARGS_MAX + requests->asked.n ? requests->asked.names[arg - ARGS_MAX]
							    : "an argument");
	if (asprintf(&text, "%s of probe '%s' %s and is compared with a %s", name,
		     table->probes[probe_index].name, types[type],
		     filter_mismatch_with_string(what) ? "string" : "number") < 0)
		return ctx_no_memory(table->ctx);
	*mismatch = text;
	return 0;
}

/*
 * Convert READ, the losses that the engine has read, to LOSSES. REQUESTS has the names of the
 * filter's arguments. The caller frees LOSSES with losses_free(), also on failure (-ENOMEM).
 */
static int losses_make(const struct site_table *table, const struct arg_requests *requests,
		       const struct measure_losses *read, struct ocp_losses *losses)
{
	*losses = (struct ocp_losses){
		.passed_over = read->passed_over,
		.rows_full = read->rows_full,
		.children_full = read->children_full,
		.filtered = read->filtered,
		.prints_dropped = read->prints_dropped,
		.prints_limited = read->prints_limited,
		.slow = read->slow,
		.slow_limited = read->slow_limited,
		.slow_dropped = read->slow_dropped,
		.slow_unkept = read->slow_unkept,
		.filter_mismatches = read->filter_mismatches,
	};
	return read->last_mismatch ? describe_mismatch(table, requests, read->last_mismatch,
						       &losses->filter_mismatch)
				   : 0;
}

/* Set *LOSSES to LATER minus EARLIER. The caller frees LOSSES, also on failure (-ENOMEM). */
static int losses_subtract(struct ocp_ctx *ctx, const struct ocp_losses *later,
			   const struct ocp_losses *earlier, struct ocp_losses *losses)
{
	*losses = (struct ocp_losses){
		.passed_over = later->passed_over - earlier->passed_over,
		.rows_full = later->rows_full - earlier->rows_full,
		.children_full = later->children_full - earlier->children_full,
		.filtered = later->filtered - earlier->filtered,
		.prints_dropped = later->prints_dropped - earlier->prints_dropped,
		.prints_limited = later->prints_limited - earlier->prints_limited,
		.slow = later->slow - earlier->slow,
		.slow_limited = later->slow_limited - earlier->slow_limited,
		.slow_dropped = later->slow_dropped - earlier->slow_dropped,
		.slow_unkept = later->slow_unkept - earlier->slow_unkept,
		.filter_mismatches = later->filter_mismatches - earlier->filter_mismatches,
	};
	if (!losses->filter_mismatches || !later->filter_mismatch)
		return 0;
	losses->filter_mismatch = strdup(later->filter_mismatch);
	return losses->filter_mismatch ? 0 : ctx_no_memory(ctx);
}

/* ---- histograms of arguments ---------------------------------------------------------------- */

struct histogram_values {
	__int128 sum;
	uint64_t buckets[OCP_SIGNED_BUCKETS];
	char arg_name[OCP_ARG_NAME_BYTES];
	struct ocp_float_histogram floats;
	struct float_sum float_sum;
	uint64_t float_buckets[OCP_FLOAT_BUCKETS];
};

/* Histograms, sorted by the name of the probe. If all members are 0, there are no histograms. */
struct arg_histograms {
	struct ocp_histogram *list;
	struct histogram_values *values; /* values[i] is the memory that list[i] points to */
	size_t n;
};

static void arg_histograms_free(struct arg_histograms *histograms)
{
	free(histograms->list);
	free(histograms->values);
	*histograms = (struct arg_histograms){ 0 };
}

static int allocate_histograms(struct ocp_ctx *ctx, struct arg_histograms *histograms, size_t n)
{
	*histograms = (struct arg_histograms){
		.list = calloc(n + 1, sizeof(*histograms->list)),
		.values = calloc(n + 1, sizeof(*histograms->values)),
	};
	return histograms->list && histograms->values ? 0 : ctx_no_memory(ctx);
}

static void point_to_values(struct ocp_histogram *histogram, struct histogram_values *values)
{
	histogram->buckets = values->buckets;
	histogram->arg_name = values->arg_name;
	values->floats.buckets = values->float_buckets;
	if (histogram->floats)
		histogram->floats = &values->floats;
}

static void set_sums(struct ocp_histogram *histogram, struct histogram_values *values)
{
	const __int128 sum = values->sum;
	struct ocp_float_histogram *floats = &values->floats;

	histogram->sum = sum > INT64_MAX ? INT64_MAX : sum < INT64_MIN ? INT64_MIN : (int64_t)sum;
	histogram->mean = histogram->count ? (double)sum / (double)histogram->count : 0;
	floats->sum = float_sum_value(&values->float_sum);
	floats->mean = floats->count ? float_sum_mean(&values->float_sum, floats->count) : 0;
}

static double float_of_ordered(uint64_t ordered)
{
	const uint64_t bits = measure_float_of_ordered(ordered);
	double number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

/* Set values->floats from READ. Return false if READ contains no float. */
static bool take_floats(struct histogram_values *values, const struct engine_floats *read)
{
	values->floats = (struct ocp_float_histogram){
		.count = read->count,
		.nan = read->nan,
		.inf = read->inf,
		.minus_inf = read->minus_inf,
		.min = read->count ? float_of_ordered(~read->min_not) : 0,
		.max = read->count ? float_of_ordered(read->max) : 0,
	};
	values->float_sum = float_sum_of(read->sums);
	memcpy(values->float_buckets, read->buckets, sizeof(values->float_buckets));
	return read->count || read->nan || read->inf || read->minus_inf;
}

static void take_ints(struct histogram_values *values, const struct engine_histogram *read)
{
	values->sum = read->sum;
	for (size_t i = 0; i < OCP_BUCKETS; i++) {
		values->buckets[OCP_BUCKETS + i] = read->buckets[i];
		values->buckets[OCP_BUCKETS - 1 - i] = read->below_0[i];
	}
}

/*
 * Convert the histograms in READING. The caller frees OUT with arg_histograms_free(), also on
 * failure (-ENOMEM).
 */
static int arg_histograms_make(const struct ocp_meter *meter, const struct engine_reading *reading,
			       struct arg_histograms *out)
{
	int err = allocate_histograms(meter->ctx, out, meter->arg_requests.n_histograms);

	for (size_t i = 0; !err && i < meter->table.n_probes; i++) {
		const struct measured_probe *probe = &meter->table.probes[meter->table.by_name[i]];
		const struct engine_histogram *read = &reading->histograms[probe->histogram];
		const struct engine_floats *floats = &reading->floats[probe->histogram];
		struct ocp_histogram *histogram = &out->list[out->n];
		struct histogram_values *values = &out->values[out->n];

		if (!probe->has_histogram)
			continue;
		out->n++;
		take_ints(values, read);
		*histogram = (struct ocp_histogram){
			.probe = probe->name,
			.arg = arg_requests_position(&meter->arg_requests, probe, values->arg_name),
			.count = read->count,
			.not_int = read->not_number + floats->count + floats->nan + floats->inf +
				   floats->minus_inf,
			.not_number = read->not_number,
			.min = read->min,
			.max = read->max,
			.floats = take_floats(values, floats) ? &values->floats : NULL,
		};
		point_to_values(histogram, values);
		set_sums(histogram, values);
	}
	return err;
}

static void find_extreme_ints(struct ocp_histogram *histogram)
{
	histogram->min = histogram->max = 0;
	for (size_t i = OCP_SIGNED_BUCKETS; i-- > 0;)
		if (histogram->buckets[i])
			histogram->min = ocp_signed_bucket_start(i);
	for (size_t i = 0; i < OCP_SIGNED_BUCKETS; i++)
		if (histogram->buckets[i])
			histogram->max = ocp_signed_bucket_start(i + 1) - 1;
}

/*
 * Return the largest float in BUCKET: the float before the start of the next bucket. If the next
 * bucket is that of 0.0, skip -0.0, which belongs to that bucket, too.
 */
static double largest_in(__u32 bucket)
{
	const uint64_t next = measure_float_ordered(measure_float_bucket_start(bucket + 1));

	return float_of_ordered(next - (bucket + 1 == MEASURE_FLOAT_ZERO ? 2 : 1));
}

static void find_extreme_floats(struct ocp_float_histogram *floats)
{
	floats->min = floats->max = 0;
	for (size_t i = OCP_FLOAT_BUCKETS; i-- > 0;)
		if (floats->buckets[i])
			floats->min = ocp_float_bucket_start(i);
	for (__u32 i = 0; i < OCP_FLOAT_BUCKETS; i++)
		if (floats->buckets[i])
			floats->max = largest_in(i);
}

static void subtract_floats(struct histogram_values *values, const struct histogram_values *old)
{
	values->floats.count -= old->floats.count;
	values->floats.nan -= old->floats.nan;
	values->floats.inf -= old->floats.inf;
	values->floats.minus_inf -= old->floats.minus_inf;
	float_sum_subtract(&values->float_sum, &old->float_sum);
	for (size_t i = 0; i < OCP_FLOAT_BUCKETS; i++)
		values->float_buckets[i] -= old->float_buckets[i];
}

static void subtract(struct ocp_histogram *histogram, struct histogram_values *values,
		     const struct ocp_histogram *old, const struct histogram_values *old_values)
{
	histogram->count -= old->count;
	histogram->not_int -= old->not_int;
	histogram->not_number -= old->not_number;
	values->sum -= old_values->sum;
	for (size_t i = 0; i < OCP_SIGNED_BUCKETS; i++)
		values->buckets[i] -= old_values->buckets[i];
	subtract_floats(values, old_values);
}

/* Set *OUT to LATER minus EARLIER, probe by probe. A probe that only LATER has keeps its values. */
static int arg_histograms_subtract(struct ocp_ctx *ctx, const struct arg_histograms *later,
				   const struct arg_histograms *earlier, struct arg_histograms *out)
{
	int err = allocate_histograms(ctx, out, later->n);
	size_t old = 0;

	out->n = err ? 0 : later->n;
	for (size_t i = 0; i < out->n; i++) {
		struct ocp_histogram *histogram = &out->list[i];
		struct histogram_values *values = &out->values[i];

		*histogram = later->list[i];
		*values = later->values[i];
		point_to_values(histogram, values);
		/* Both lists are sorted by the name of the probe. */
		while (old < earlier->n && strcmp(earlier->list[old].probe, histogram->probe) < 0)
			old++;
		if (old < earlier->n && strcmp(earlier->list[old].probe, histogram->probe) == 0)
			subtract(histogram, values, &earlier->list[old], &earlier->values[old]);
		set_sums(histogram, values);
		find_extreme_ints(histogram);
		find_extreme_floats(&values->floats);
	}
	return err;
}

/* ---- calls by domain ------------------------------------------------------------------------ */

void meter_split_by_domain(struct ocp_meter *meter, const struct engine_domains *domains)
{
	meter->domains = *domains;
}

static void domain_pairs_free(struct domain_pairs *pairs)
{
	free(pairs->list);
	*pairs = (struct domain_pairs){ 0 };
}

static int allocate_domain_pairs(struct ocp_ctx *ctx, struct domain_pairs *pairs, size_t n)
{
	*pairs = (struct domain_pairs){ .list = calloc(n + 1, sizeof(*pairs->list)), .n = n };
	return pairs->list ? 0 : ctx_no_memory(ctx);
}

static int compare_domain_pairs(const void *a, const void *b)
{
	const struct domain_pair *x = a, *y = b;

	if (x->pair != y->pair)
		return COMPARE(x->pair, y->pair);
	return COMPARE(x->domain, y->domain);
}

/*
 * Make list[i].times.buckets point to list[i].buckets. Call this after elements of the list were
 * moved.
 */
static void point_to_buckets(struct domain_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++)
		pairs->list[i].times.buckets = pairs->list[i].buckets;
}

/* Name, sort and complete PAIRS, which the engine of METER has read. */
static void domain_pairs_make(const struct ocp_meter *meter, struct domain_pairs *pairs)
{
	size_t n = 0;

	for (size_t i = 0; i < pairs->n; i++) {
		struct domain_pair *row = &pairs->list[i];

		if (row->pair >= meter->request.n_pairs)
			continue;
		row->times.start = meter->request.pairs[row->pair].start.text;
		row->times.stop = "";
		row->times.starts = row->times.count;
		pairs->list[n++] = *row;
	}
	pairs->n = n;
	if (n)
		qsort(pairs->list, n, sizeof(*pairs->list), compare_domain_pairs);
	point_to_buckets(pairs);
}

void pair_find_extremes(struct ocp_pair *pair)
{
	pair->min_ns = pair->max_ns = 0;
	for (size_t i = OCP_BUCKETS; i-- > 0;)
		if (pair->buckets[i])
			pair->min_ns = ocp_bucket_start(i);
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		if (pair->buckets[i])
			pair->max_ns = ocp_bucket_start(i + 1) - 1;
}

/*
 * Subtract OLD from PAIR, and the histogram of OLD from BUCKETS. Do not change the minimum, the
 * maximum and `open`.
 */
static void subtract_pair(struct ocp_pair *pair, uint64_t *buckets, const struct ocp_pair *old)
{
	pair->count -= old->count;
	pair->sum_ns -= old->sum_ns;
	pair->starts -= old->starts;
	pair->orphan_starts -= old->orphan_starts;
	pair->orphan_stops -= old->orphan_stops;
	pair->map_full -= old->map_full;
	pair->not_keyed -= old->not_keyed;
	pair->mismatched -= old->mismatched;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		buckets[i] -= old->buckets[i];
}

/* Set *OUT to LATER minus EARLIER. The caller frees OUT, also on failure (-ENOMEM). */
static int domain_pairs_subtract(struct ocp_ctx *ctx, const struct domain_pairs *later,
				 const struct domain_pairs *earlier, struct domain_pairs *out)
{
	int err = allocate_domain_pairs(ctx, out, later->n);

	if (err)
		return err;
	if (later->n)
		memcpy(out->list, later->list, later->n * sizeof(*out->list));
	point_to_buckets(out);
	for (size_t i = 0; i < out->n; i++) {
		const struct domain_pair *old =
			earlier->n ? bsearch(&out->list[i], earlier->list, earlier->n,
					     sizeof(*out->list), compare_domain_pairs)
				   : NULL;

		if (old)
			subtract_pair(&out->list[i].times, out->list[i].buckets, &old->times);
		pair_find_extremes(&out->list[i].times);
	}
	return 0;
}

/* ---- a sample ------------------------------------------------------------------------------- */

struct sample_row {
	struct ocp_hits hits;
	char comm[16];
	uint64_t key; /* the row has the same key in all samples of the meter */
};

struct ocp_sample {
	struct ocp_meter *meter;
	int64_t time_ns;
	struct hit_sums sums;
	struct ocp_losses losses;
	struct ocp_probe_hits *probes;
	size_t n_probes;
	struct sample_row *rows;
	size_t n_rows;
	struct ocp_pair *pairs;
	uint64_t (*buckets)[OCP_BUCKETS]; /* buckets[i] is the histogram of the times of pairs[i] */
	size_t n_pairs;
	struct arg_histograms histograms;
	struct domain_pairs domains;
	struct value_groups groups;
};

void ocp_sample_free(struct ocp_sample *sample)
{
	if (!sample)
		return;
	losses_free(&sample->losses);
	free(sample->probes);
	free(sample->rows);
	free(sample->pairs);
	free(sample->buckets);
	arg_histograms_free(&sample->histograms);
	domain_pairs_free(&sample->domains);
	value_groups_free(&sample->groups);
	free(sample);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int make_probes(struct ocp_sample *sample, const uint64_t *site_hits)
{
	const struct site_table *table = &sample->meter->table;
	size_t *place = calloc(table->n_probes + 1, sizeof(*place));

	sample->probes = calloc(table->n_probes + 1, sizeof(*sample->probes));
	if (!place || !sample->probes) {
		free(place);
		return ctx_no_memory(sample->meter->ctx);
	}
	for (size_t i = 0; i < table->n_probes; i++) {
		const uint32_t number = table->by_name[i];
		const struct measured_probe *probe = &table->probes[number];

		place[number] = i;
		sample->probes[i] = (struct ocp_probe_hits){ .probe = probe->name,
							     .hits = probe->past_hits,
							     .is_counted = probe->is_counted,
							     .is_in_pair = probe->n_roles != 0,
							     .n_uses = probe->n_uses,
							     .n_uses_without_site =
								     probe->n_uses_without_site };
	}
	sample->n_probes = table->n_probes;
	for (size_t i = 0; i < table->n_sites; i++) {
		const struct measured_site *site = &table->sites[i];
		struct ocp_probe_hits *probe;

		if (site->file == NO_FILE)
			continue;
		probe = &sample->probes[place[site->probe_index]];
		probe->hits += site->counts ? site_hits[i] : 0;
		sample->sums.all += site_hits[i];
		sample->sums.stepped += site->is_stepped ? site_hits[i] : 0;
		sample->sums.paired += table->probes[site->probe_index].n_roles ? site_hits[i] : 0;
		probe->n_sites += site->site != NULL;
	}
	for (size_t i = 0; i < sample->n_probes; i++)
		sample->sums.all += table->probes[i].past_hits;
	free(place);
	return 0;
}

static int make_probe_rows(struct ocp_sample *sample)
{
	const struct site_table *table = &sample->meter->table;

	sample->rows = calloc(sample->n_probes + 1, sizeof(*sample->rows));
	if (!sample->rows)
		return ctx_no_memory(sample->meter->ctx);
	for (size_t i = 0; i < sample->n_probes; i++) {
		const struct ocp_probe_hits *probe = &sample->probes[i];

		if (probe->is_counted)
			sample->rows[sample->n_rows++] = (struct sample_row){
				.hits = { .probe = probe->probe, .hits = probe->hits },
				.key = table->by_name[i],
			};
	}
	return 0;
}

static int compare_sample_rows(const void *a, const void *b)
{
	const struct sample_row *x = a, *y = b;
	int order = strcmp(x->hits.probe, y->hits.probe);

	if (order)
		return order;
	if (x->hits.pid != y->hits.pid)
		return COMPARE(x->hits.pid, y->hits.pid);
	return COMPARE(x->key, y->key);
}

static int make_site_rows(struct ocp_sample *sample, const uint64_t *site_hits)
{
	const struct site_table *table = &sample->meter->table;

	sample->rows = calloc(table->n_sites + 1, sizeof(*sample->rows));
	if (!sample->rows)
		return ctx_no_memory(sample->meter->ctx);
	for (size_t i = 0; i < table->n_sites; i++) {
		const struct measured_site *site = &table->sites[i];
		const struct measured_probe *probe = &table->probes[site->probe_index];

		if (site->file == NO_FILE || !probe->is_counted || !site->counts)
			continue;
		sample->rows[sample->n_rows++] = (struct sample_row){
			.hits = { .probe = probe->name,
				  .hits = site_hits[i],
				  .image = table->files[site->file].name,
				  .va = site->va,
				  .symbol = site->symbol,
				  .symbol_off = site->symbol_off,
				  .source = site->source,
				  .line = site->line,
				  .column = site->source_column },
			.key = i,
		};
	}
	qsort(sample->rows, sample->n_rows, sizeof(*sample->rows), compare_sample_rows);
	return 0;
}

static int make_keyed_rows(struct ocp_sample *sample, const struct engine_reading *reading)
{
	const struct ocp_meter *meter = sample->meter;

	sample->rows = calloc(reading->n_keyed + meter->n_forgotten + 1, sizeof(*sample->rows));
	if (!sample->rows)
		return ctx_no_memory(meter->ctx);
	for (size_t i = 0; i < meter->n_forgotten; i++)
		if (meter->forgotten[i])
			sample->rows[sample->n_rows++] = (struct sample_row){
				.hits = { .probe = meter->table.probes[i].name,
					  .hits = meter->forgotten[i] },
				.key = i,
			};
	for (size_t i = 0; i < reading->n_keyed; i++) {
		const struct engine_keyed *keyed = &reading->keyed[i];
		struct sample_row *row = &sample->rows[sample->n_rows++];

		/* For a pinned meter, the map may contain numbers that are not in the table. */
		if (keyed->probe_index >= meter->table.n_probes)
			return ctx_error(meter->ctx, -EBADMSG,
					 "measuring: hits of a probe that is not measured");
		*row = (struct sample_row){
			.hits = { .probe = meter->table.probes[keyed->probe_index].name,
				  .hits = keyed->hits,
				  .pid = (pid_t)keyed->tgid },
			.key = (uint64_t)keyed->id << 32 | keyed->probe_index,
		};
		if (meter->request.split == OCP_BY_THREAD)
			row->hits.tid = (pid_t)keyed->id;
		thread_name_copy(row->comm, keyed->comm);
	}
	qsort(sample->rows, sample->n_rows, sizeof(*sample->rows), compare_sample_rows);
	for (size_t i = 0; i < sample->n_rows; i++)
		sample->rows[i].hits.comm = sample->rows[i].comm;
	return 0;
}

static int make_rows(struct ocp_sample *sample, const struct engine_reading *reading)
{
	if (sample->meter->request.split == OCP_BY_PROBE)
		return make_probe_rows(sample);
	if (sample->meter->request.split == OCP_BY_SITE)
		return make_site_rows(sample, reading->hits);
	return make_keyed_rows(sample, reading);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static int allocate_pairs(struct ocp_sample *sample, size_t n)
{
	sample->pairs = calloc(n + 1, sizeof(*sample->pairs));
	sample->buckets = calloc(n + 1, sizeof(*sample->buckets));
	if (!sample->pairs || !sample->buckets)
		return ctx_no_memory(sample->meter->ctx);
	sample->n_pairs = n;
	return 0;
}

/*
 * The engine has read the counters of the pairs of SAMPLE. Set the other members of these pairs:
 * start, stop, open, buckets and by_key.
 */
static void make_pairs(struct ocp_sample *sample)
{
	const struct measure_request *request = &sample->meter->request;

	for (size_t i = 0; i < sample->n_pairs; i++) {
		struct ocp_pair *pair = &sample->pairs[i];
		const uint64_t ended =
			pair->count + pair->orphan_starts + pair->map_full + pair->not_keyed;

		pair->start = request->pairs[i].start.text;
		pair->stop = request_pair_stop(&request->pairs[i]);
		/*
		 * While the meter is attached, the counters are not all read at the same moment, so
		 * `ended` may be larger than `starts`.
		 */
		pair->open = pair->starts > ended ? pair->starts - ended : 0;
		pair->buckets = sample->buckets[i];
		pair->by_key = request->pairs[i].key_arg >= 0;
	}
}

/* ---- reading -------------------------------------------------------------------------------- */

static int64_t elapsed_ns(const struct ocp_meter *meter)
{
	if (meter->end_ns || !meter->start_ns)
		return meter->end_ns - meter->start_ns;
	return clock_ns(CLOCK_MONOTONIC) - meter->start_ns;
}

/* Read the counts from the engine of SAMPLE's meter into READING, and the pairs into SAMPLE. */
static int read_engine(struct ocp_sample *sample, struct engine_reading *reading)
{
	struct ocp_meter *meter = sample->meter;
	int err = allocate_pairs(sample, meter->request.n_pairs);

	*reading = (struct engine_reading){
		.hits = calloc(meter->table.n_sites + 1, sizeof(*reading->hits)),
		.pairs = sample->pairs,
		.pair_buckets = sample->buckets,
		.histograms = calloc(meter->spec.n_histograms + 1, sizeof(*reading->histograms)),
		.floats = calloc(meter->spec.n_histograms + 1, sizeof(*reading->floats)),
	};
	if (!err && (!reading->hits || !reading->histograms || !reading->floats))
		err = ctx_no_memory(meter->ctx);
	if (!err)
		err = meter->ops->read(meter->engine, reading);
	sample->domains = reading->domain_pairs;
	return err;
}

/* Set losses.last_mismatch of READING from the number of the site, if the engine gives it so. */
static void name_mismatch(const struct site_table *table, struct engine_reading *reading)
{
	const struct engine_mismatch *from = &reading->mismatch;

	if (from->is_set && from->number < table->n_sites)
		reading->losses.last_mismatch =
			measure_mismatch(table->sites[from->number].probe_index,
					 filter_mismatch(from->arg, FILTER_TYPE_NOT_INT, 0));
}

int ocp_meter_read(struct ocp_meter *meter, struct ocp_sample **out)
{
	struct ocp_sample *sample = calloc(1, sizeof(*sample));
	struct engine_reading reading = { 0 };
	int err;

	*out = NULL;
	if (!sample)
		return ctx_no_memory(meter->ctx);
	if (!meter->engine) {
		free(sample);
		return ctx_error(meter->ctx, -EINVAL, "measuring: not opened yet");
	}
	sample->meter = meter;
	sample->time_ns = elapsed_ns(meter);
	err = read_engine(sample, &reading);
	sample->sums.walk_ns = reading.walk_ns;
	if (!err)
		err = make_probes(sample, reading.hits);
	if (!err)
		err = make_rows(sample, &reading);
	if (!err)
		err = arg_histograms_make(meter, &reading, &sample->histograms);
	if (!err)
		err = value_groups_make(meter, &reading, &sample->groups);
	name_mismatch(&meter->table, &reading);
	if (!err)
		err = losses_make(&meter->table, &meter->arg_requests, &reading.losses,
				  &sample->losses);
	make_pairs(sample);
	domain_pairs_make(meter, &sample->domains);
	sample->sums.unlisted = sample->losses.passed_over + sample->losses.filtered;
	free(reading.hits);
	free(reading.histograms);
	free(reading.floats);
	free(reading.keyed);
	free(reading.groups);
	free(reading.group_times);
	if (err) {
		ocp_sample_free(sample);
		return err;
	}
	*out = sample;
	return 0;
}

/* ---- differences ---------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
	const struct sample_row *x = a, *y = b;

	return COMPARE(x->key, y->key);
}

/*
 * Finds rows of an earlier sample by their keys. Usually the later sample has its rows in the same
 * order, so find_earlier() tries the next row first.
 */
struct earlier_rows {
	const struct ocp_sample *sample;
	size_t next;
	struct sample_row *by_key;
	bool is_sorted;
};

static const struct sample_row *find_earlier(struct earlier_rows *earlier,
					     const struct sample_row *row)
{
	const size_t n = earlier->sample->n_rows;

	if (earlier->next < n && earlier->sample->rows[earlier->next].key == row->key)
		return &earlier->sample->rows[earlier->next++];
	if (!n)
		return NULL;
	if (!earlier->is_sorted) {
		memcpy(earlier->by_key, earlier->sample->rows, n * sizeof(*row));
		qsort(earlier->by_key, n, sizeof(*row), compare_keys);
		earlier->is_sorted = true;
	}
	return bsearch(row, earlier->by_key, n, sizeof(*row), compare_keys);
}

/*
 * From each row of OUT, subtract the row of EARLIER with the same key. If the row of OUT has fewer
 * hits than the row of EARLIER, it belongs to a new process or thread that has got the same id:
 * then subtract nothing.
 *
 * GONE is NULL or all 0. If it is not NULL, set GONE[probe] to the hits of those rows of EARLIER
 * that were not subtracted. These rows were removed, and their hits were added to the probe's row
 * of ended processes: so subtract GONE from that row.
 */
static void subtract_each(struct ocp_sample *out, struct earlier_rows *earlier, uint64_t *gone)
{
	for (size_t i = 0; gone && i < earlier->sample->n_rows; i++)
		gone[(uint32_t)earlier->sample->rows[i].key] += earlier->sample->rows[i].hits.hits;
	for (size_t i = 0; i < out->n_rows; i++) {
		struct sample_row *row = &out->rows[i];
		const struct sample_row *old = find_earlier(earlier, row);

		if (!old || old->hits.hits > row->hits.hits)
			continue;
		row->hits.hits -= old->hits.hits;
		if (gone)
			gone[(uint32_t)row->key] -= old->hits.hits;
	}
	for (size_t i = 0; gone && i < out->n_rows; i++)
		if (out->rows[i].key >> 32 == 0)
			out->rows[i].hits.hits -= gone[out->rows[i].key];
}

static int subtract_rows(struct ocp_sample *out, const struct ocp_sample *later,
			 const struct ocp_sample *earlier)
{
	const enum ocp_split split = later->meter->request.split;
	const bool by_id = split == OCP_BY_THREAD || split == OCP_BY_PROCESS;
	struct earlier_rows rows = { .sample = earlier };
	uint64_t *gone = calloc(later->meter->table.n_probes + 1, sizeof(*gone));

	rows.by_key = malloc((earlier->n_rows + 1) * sizeof(*rows.by_key));
	out->rows = malloc((later->n_rows + 1) * sizeof(*out->rows));
	if (!rows.by_key || !gone || !out->rows) {
		free(rows.by_key);
		free(gone);
		return ctx_no_memory(later->meter->ctx);
	}
	memcpy(out->rows, later->rows, later->n_rows * sizeof(*out->rows));
	out->n_rows = later->n_rows;
	for (size_t i = 0; i < out->n_rows; i++)
		if (out->rows[i].hits.comm)
			out->rows[i].hits.comm = out->rows[i].comm;
	subtract_each(out, &rows, by_id ? gone : NULL);
	free(rows.by_key);
	free(gone);
	return 0;
}

/*
 * Set the probes of OUT to LATER minus EARLIER. Both samples are sorted by name. A probe that only
 * LATER has keeps its hits.
 */
static int subtract_probes(struct ocp_sample *out, const struct ocp_sample *later,
			   const struct ocp_sample *earlier)
{
	size_t old = 0;

	out->probes = calloc(later->n_probes + 1, sizeof(*out->probes));
	if (!out->probes)
		return ctx_no_memory(later->meter->ctx);
	for (; out->n_probes < later->n_probes; out->n_probes++) {
		struct ocp_probe_hits *probe = &out->probes[out->n_probes];

		*probe = later->probes[out->n_probes];
		while (old < earlier->n_probes &&
		       strcmp(earlier->probes[old].probe, probe->probe) < 0)
			old++;
		if (old < earlier->n_probes &&
		    strcmp(earlier->probes[old].probe, probe->probe) == 0)
			probe->hits -= earlier->probes[old].hits;
	}
	return 0;
}

static int subtract_pairs(struct ocp_sample *out, const struct ocp_sample *later,
			  const struct ocp_sample *earlier)
{
	int err = allocate_pairs(out, later->n_pairs);

	for (size_t i = 0; !err && i < later->n_pairs; i++) {
		struct ocp_pair *pair = &out->pairs[i];

		*pair = later->pairs[i];
		memcpy(out->buckets[i], later->buckets[i], sizeof(out->buckets[i]));
		pair->buckets = out->buckets[i];
		subtract_pair(pair, out->buckets[i], &earlier->pairs[i]);
		pair_find_extremes(pair);
	}
	return err;
}

int ocp_sample_difference(const struct ocp_sample *later, const struct ocp_sample *earlier,
			  struct ocp_sample **out)
{
	struct ocp_sample *sample = calloc(1, sizeof(*sample));
	int err;

	*out = NULL;
	if (!sample)
		return ctx_no_memory(later->meter->ctx);
	sample->meter = later->meter;
	sample->time_ns = later->time_ns - earlier->time_ns;
	sample->sums.all = later->sums.all - earlier->sums.all;
	/*
	 * A later sum can be smaller than the earlier sum: it lacks the hits of sites that were
	 * removed in between.
	 */
	if (later->sums.stepped > earlier->sums.stepped)
		sample->sums.stepped = later->sums.stepped - earlier->sums.stepped;
	if (later->sums.paired > earlier->sums.paired)
		sample->sums.paired = later->sums.paired - earlier->sums.paired;
	sample->sums.walk_ns = later->sums.walk_ns - earlier->sums.walk_ns;
	err = losses_subtract(later->meter->ctx, &later->losses, &earlier->losses, &sample->losses);
	sample->sums.unlisted = sample->losses.passed_over + sample->losses.filtered;
	if (!err)
		err = subtract_probes(sample, later, earlier);
	if (!err)
		err = subtract_rows(sample, later, earlier);
	if (!err)
		err = subtract_pairs(sample, later, earlier);
	if (!err)
		err = arg_histograms_subtract(later->meter->ctx, &later->histograms,
					      &earlier->histograms, &sample->histograms);
	if (!err)
		err = domain_pairs_subtract(later->meter->ctx, &later->domains, &earlier->domains,
					    &sample->domains);
	if (!err)
		err = value_groups_subtract(later->meter->ctx, &later->groups, &earlier->groups,
					    &sample->groups);
	if (err) {
		ocp_sample_free(sample);
		return err;
	}
	*out = sample;
	return 0;
}

/* ---- questions ------------------------------------------------------------------------------ */

int64_t ocp_sample_time_ns(const struct ocp_sample *sample)
{
	return sample->time_ns;
}

uint64_t ocp_sample_stepped_hits(const struct ocp_sample *sample)
{
	return hit_sums_stepped(&sample->sums);
}

double ocp_sample_cost_per_hit_ns(const struct ocp_sample *sample, const struct ocp_costs *costs)
{
	return hit_sums_cost_ns(&sample->sums, costs);
}

uint64_t ocp_sample_all_hits(const struct ocp_sample *sample)
{
	return sample->sums.all + sample->sums.unlisted;
}

const struct ocp_losses *ocp_sample_losses(const struct ocp_sample *sample)
{
	return &sample->losses;
}

size_t ocp_sample_probe_count(const struct ocp_sample *sample)
{
	return sample->n_probes;
}

const struct ocp_probe_hits *ocp_sample_probe(const struct ocp_sample *sample, size_t i)
{
	return &sample->probes[i];
}

size_t ocp_sample_hits_count(const struct ocp_sample *sample)
{
	return sample->n_rows;
}

const struct ocp_hits *ocp_sample_hits(const struct ocp_sample *sample, size_t i)
{
	return &sample->rows[i].hits;
}

size_t ocp_sample_pair_count(const struct ocp_sample *sample)
{
	return sample->n_pairs;
}

const struct ocp_pair *ocp_sample_pair(const struct ocp_sample *sample, size_t i)
{
	return &sample->pairs[i];
}

size_t ocp_sample_histogram_count(const struct ocp_sample *sample)
{
	return sample->histograms.n;
}

const struct ocp_histogram *ocp_sample_histogram(const struct ocp_sample *sample, size_t i)
{
	return &sample->histograms.list[i];
}

const struct value_groups *sample_value_groups(const struct ocp_sample *sample)
{
	return &sample->groups;
}

const struct domain_pairs *sample_domain_pairs(const struct ocp_sample *sample)
{
	return &sample->domains;
}

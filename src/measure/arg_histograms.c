// SPDX-License-Identifier: MIT
#include "measure/arg_histograms.h"

#include <stdlib.h>
#include <string.h>

#include "measure/float_sum.h"
#include "measure/meter.h"

struct histogram_values {
	__int128 sum;
	uint64_t buckets[OCP_SIGNED_BUCKETS];
	char arg_name[OCP_ARG_NAME_BYTES];
	struct ocp_float_histogram floats;
	struct float_sum float_sum;
	uint64_t float_buckets[OCP_FLOAT_BUCKETS];
};

void arg_histograms_free(struct arg_histograms *histograms)
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

/* ---- made from the engine's reading --------------------------------------------------------- */

static double float_of_ordered(uint64_t ordered)
{
	const uint64_t bits = measure_float_of_ordered(ordered);
	double number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

/* Fill in the floats of VALUES from READ. Return false if READ contains no float. */
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

int arg_histograms_make(const struct ocp_meter *meter, const struct engine_reading *reading,
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

/* ---- differences ---------------------------------------------------------------------------- */

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
 * Return the largest float in BUCKET: the float before the start of the next bucket. Before 0.0,
 * this skips -0.0, which belongs to the bucket of 0.0.
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

/* Subtract probe by probe. A probe that is only in LATER keeps its values. */
int arg_histograms_subtract(struct ocp_ctx *ctx, const struct arg_histograms *later,
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

// SPDX-License-Identifier: MIT
/* Reads the log-linear histograms that bpf/measure.h and bpf/measure_floats.h define. */
#include <linux/types.h>
#include <string.h>
#include "measure.h"
#include "measure_floats.h"
#include "ocaml_probes.h"

_Static_assert((int)OCP_BUCKETS == (int)MEASURE_BUCKETS, "one histogram");
_Static_assert((int)OCP_FLOAT_BUCKETS == (int)MEASURE_FLOAT_BUCKETS &&
		       (int)OCP_FLOAT_ZERO_BUCKET == (int)MEASURE_FLOAT_ZERO,
	       "one histogram");

uint64_t ocp_bucket_start(size_t bucket)
{
	return bucket < MEASURE_BUCKETS ? measure_bucket_start((__u32)bucket) : UINT64_MAX;
}

uint64_t ocp_bucket_quantile(const uint64_t *buckets, double quantile)
{
	uint64_t total = 0, below = 0;
	double wanted;

	for (size_t i = 0; i < OCP_BUCKETS; i++)
		total += buckets[i];
	if (!total)
		return 0;
	wanted = quantile * (double)total;
	for (size_t i = 0; i < OCP_BUCKETS; i++) {
		uint64_t start = ocp_bucket_start(i);
		double width = (double)(ocp_bucket_start(i + 1) - start);

		if (buckets[i] && (double)(below + buckets[i]) >= wanted) {
			double part = (wanted - (double)below) / (double)buckets[i];

			/*
			 * If the bucket contains only one value, there is nothing to interpolate.
			 */
			return width <= 1 ? start : start + (uint64_t)(part * width);
		}
		below += buckets[i];
	}
	return UINT64_MAX;
}

uint64_t ocp_pair_quantile_ns(const struct ocp_pair *pair, double quantile)
{
	const uint64_t ns = ocp_bucket_quantile(pair->buckets, quantile);

	return ns < pair->min_ns ? pair->min_ns : ns > pair->max_ns ? pair->max_ns : ns;
}

/*
 * Return the smallest value of BUCKET. The buckets are symmetric: bucket OCP_BUCKETS - 1 - N
 * contains the negated values of bucket OCP_BUCKETS + N.
 */
int64_t ocp_signed_bucket_start(size_t bucket)
{
	uint64_t start;

	if (bucket >= OCP_BUCKETS) {
		start = ocp_bucket_start(bucket - OCP_BUCKETS);
		return start > INT64_MAX ? INT64_MAX : (int64_t)start;
	}
	start = ocp_bucket_start(OCP_BUCKETS - bucket);
	return start - 1 > INT64_MAX ? INT64_MIN : -(int64_t)(start - 1);
}

double ocp_float_bucket_start(size_t bucket)
{
	const uint64_t bits = measure_float_bucket_start(
		bucket < MEASURE_FLOAT_BUCKETS ? (__u32)bucket : MEASURE_FLOAT_BUCKETS);
	double start;

	memcpy(&start, &bits, sizeof(start));
	return start;
}

// SPDX-License-Identifier: MIT
/* The log-linear histograms: every value has a bucket, and quantiles are good to a bucket. */
#include <linux/types.h>
#include <string.h>
#include "measure.h"
#include "ocaml_probes.h"
#include "unit.h"

TEST(buckets_follow_each_other)
{
	assert_int_equal(ocp_bucket_start(0), 0);
	for (uint32_t i = 1; i < OCP_BUCKETS; i++) {
		assert_true(ocp_bucket_start(i) > ocp_bucket_start(i - 1));
		assert_int_equal(measure_bucket_of(ocp_bucket_start(i)), i);
		assert_int_equal(measure_bucket_of(ocp_bucket_start(i) - 1), i - 1);
	}
	assert_int_equal(measure_bucket_of(UINT64_MAX), OCP_BUCKETS - 1);
	assert_true(ocp_bucket_start(OCP_BUCKETS) == UINT64_MAX);
}

TEST(a_bucket_is_an_eighth_of_an_octave)
{
	for (uint32_t i = 16; i + 8 < OCP_BUCKETS; i++) {
		const uint64_t start = ocp_bucket_start(i), width = ocp_bucket_start(i + 1) - start;

		assert_int_equal(ocp_bucket_start(i + 8), 2 * start);
		assert_true(width * 8 <= start);
	}
}

TEST(quantiles)
{
	uint64_t buckets[OCP_BUCKETS] = { 0 };

	assert_int_equal(ocp_bucket_quantile(buckets, 0.5), 0);
	/* The values 1 to 100 000. */
	for (uint64_t value = 1; value <= 100000; value++)
		buckets[measure_bucket_of(value)]++;
	for (int percent = 1; percent <= 100; percent++) {
		const double exact = percent * 1000;
		const double found = (double)ocp_bucket_quantile(buckets, percent / 100.0);

		/* The values of the last bucket are not spread over it: good to an eighth. */
		assert_true(found >= exact * 0.99);
		assert_true(found <= exact * (percent <= 98 ? 1.01 : 1.125) + 1);
	}
	/* One value only. */
	memset(buckets, 0, sizeof(buckets));
	buckets[measure_bucket_of(5)] = 1000;
	assert_int_equal(ocp_bucket_quantile(buckets, 0.001), 5);
	assert_int_equal(ocp_bucket_quantile(buckets, 0.999), 5);
}

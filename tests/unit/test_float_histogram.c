// SPDX-License-Identifier: MIT
/* Buckets of floats against frexp(), and their exact sums. */
#include <float.h>
#include <linux/types.h>
#include <math.h>
#include <string.h>
#include "exact_sum.h"
#include "measure/float_sum.h"
#include "measure_floats.h"
#include "ocaml_probes.h"
#include "unit.h"

enum { SOME = 300000, AN_OCTAVE = 8 };

static const double special[] = {
	0.0,
	-0.0,
	DBL_TRUE_MIN,
	-DBL_TRUE_MIN,
	2 * DBL_TRUE_MIN,
	DBL_MIN,
	-DBL_MIN,
	DBL_MIN / 2,
	DBL_MAX,
	-DBL_MAX,
	1.0,
	-1.0,
	0x1p-32,
	-0x1p-32,
	0x1.fffffffffffffp-33,
	-0x1.fffffffffffffp-33,
	0x1p64,
	-0x1p64,
	0x1.fffffffffffffp63,
	-0x1.fffffffffffffp63,
	0x1.0000000000001p64,
	-0x1.0000000000001p64,
	1.125,
	-1.125,
	0x1.1fffffffffff8p0,
	0x1.2000000000001p0,
	0.1,
	-1e300,
};

enum { N_SPECIAL = sizeof(special) / sizeof(special[0]) };

/* A float of any exponent, or, every other time, one of those that have buckets of their own. */
static double some_float(uint64_t *seed, int i)
{
	const uint64_t bits = random_bits(seed);
	const double fraction = 1 + (double)(bits >> 12) * 0x1p-52;

	if (i < N_SPECIAL)
		return special[i];
	if (i % 2)
		return float_of_bits(bits);
	/* Some are bounds of buckets. */
	return ldexp(i % 8 ? fraction : floor(fraction * AN_OCTAVE) / AN_OCTAVE,
		     (int)(random_bits(seed) % 100) - 34) *
	       (bits & 1 ? -1 : 1);
}

/* ---- buckets -------------------------------------------------------------------------------- */

/* Which bucket it should be, by frexp(). */
static uint32_t bucket_by_frexp(double x)
{
	int exponent, eighth, distance;
	double fraction;

	if (x == 0)
		return OCP_FLOAT_ZERO_BUCKET;
	fraction = frexp(fabs(x), &exponent) * 2 * AN_OCTAVE; /* 8 to before 16 */
	exponent--;
	eighth = (int)fraction - AN_OCTAVE;
	/* Below 0, a bound belongs to the bucket that is closer to 0. */
	if (x < 0 && fraction == floor(fraction))
		eighth--;
	distance = (exponent + 32) * AN_OCTAVE + eighth + 2;
	if (distance < 2)
		distance = 1;
	if (distance > (64 + 32) * AN_OCTAVE + 1)
		distance = (64 + 32) * AN_OCTAVE + 2;
	return (uint32_t)(OCP_FLOAT_ZERO_BUCKET + (x < 0 ? -distance : distance));
}

TEST(every_float_has_its_bucket)
{
	uint64_t seed = 17;

	for (int i = 0; i < SOME; i++) {
		const double x = some_float(&seed, i);
		uint32_t bucket;

		if (!isfinite(x))
			continue;
		bucket = measure_float_bucket_of(bits_of_float(x));
		assert_true(bucket < OCP_FLOAT_BUCKETS);
		assert_true(ocp_float_bucket_start(bucket) <= x);
		assert_true(x < ocp_float_bucket_start(bucket + 1));
		assert_int_equal(bucket, bucket_by_frexp(x));
	}
}

TEST(buckets_follow_each_other)
{
	assert_true(ocp_float_bucket_start(0) == -DBL_MAX);
	assert_true(ocp_float_bucket_start(OCP_FLOAT_ZERO_BUCKET) == 0);
	assert_true(ocp_float_bucket_start(OCP_FLOAT_BUCKETS) == HUGE_VAL);
	assert_true(ocp_float_bucket_start(SIZE_MAX) == HUGE_VAL);
	for (size_t i = 0; i < OCP_FLOAT_BUCKETS; i++) {
		const double start = ocp_float_bucket_start(i),
			     next = ocp_float_bucket_start(i + 1);

		assert_true(start < next);
		assert_int_equal(measure_float_bucket_of(bits_of_float(start)), i);
		assert_int_equal(measure_float_bucket_of(bits_of_float(nextafter(next, start))), i);
	}
}

TEST(a_bucket_is_an_eighth_of_an_octave)
{
	const size_t first = measure_float_bucket_of(bits_of_float(0x1p-32));

	for (size_t i = first; i < OCP_FLOAT_BUCKETS - 1; i++) {
		const double start = ocp_float_bucket_start(i),
			     next = ocp_float_bucket_start(i + 1);
		const double octave = exp2(floor(log2(start)));

		assert_true(next - start == octave / AN_OCTAVE);
		/* The same on the other side. */
		assert_true(ocp_float_bucket_start(OCP_FLOAT_BUCKETS - i) == -start);
	}
}

TEST(floats_keep_their_order)
{
	uint64_t seed = 23;

	for (int i = 0; i < SOME; i++) {
		const double x = some_float(&seed, i), y = some_float(&seed, i + 1);
		const uint64_t a = measure_float_ordered(bits_of_float(x)),
			       b = measure_float_ordered(bits_of_float(y));

		assert_int_equal(measure_float_of_ordered(a), bits_of_float(x));
		if (x != y && !isnan(x) && !isnan(y))
			assert_int_equal(a < b, x < y);
	}
	assert_true(measure_float_ordered(bits_of_float(-0.0)) < measure_float_ordered(0));
	/* 0 stands for no float, as a maximum and as a minimum. */
	assert_true(measure_float_ordered(bits_of_float(-HUGE_VAL)) > 0);
	assert_true(~measure_float_ordered(bits_of_float(HUGE_VAL)) > 0);
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* As the BPF program has them. */
struct groups {
	__int128 sums[MEASURE_FLOAT_GROUPS];
};

static void add(struct groups *groups, double x)
{
	__s64 number;
	const uint32_t group = measure_float_group(bits_of_float(x), &number);

	assert_true(group < MEASURE_FLOAT_GROUPS);
	groups->sums[group] += number;
}

static double sum_of(const struct groups *groups)
{
	const struct float_sum sum = float_sum_of(groups->sums);

	return float_sum_value(&sum);
}

static double mean_of(const struct groups *groups, uint64_t count)
{
	const struct float_sum sum = float_sum_of(groups->sums);

	return float_sum_mean(&sum, count);
}

TEST(one_float_is_its_own_sum)
{
	uint64_t seed = 5;

	for (int i = 0; i < SOME / 100; i++) {
		const double x = some_float(&seed, i);
		struct groups groups = { { 0 } };

		if (!isfinite(x))
			continue;
		add(&groups, x);
		assert_true(sum_of(&groups) == x);
		assert_true(mean_of(&groups, 1) == x);
		add(&groups, x);
		assert_true(mean_of(&groups, 2) == x);
		add(&groups, -x);
		add(&groups, -x);
		assert_true(sum_of(&groups) == 0);
	}
}

/*
 * Of all sizes, so that most are lost when they are added one to another; many nearly cancel out.
 */
TEST(sums_are_rounded_once)
{
	uint64_t seed = 99;

	for (int round = 0; round < 300; round++) {
		const int spread = (int)(random_bits(&seed) % 2000) + 1;
		struct exact_sum expected = { .n = 0 };
		struct groups groups = { { 0 } };
		double last = 0;

		for (int i = 0; i < 100; i++) {
			const uint64_t bits = random_bits(&seed);
			double x = ldexp((double)(bits >> 11) * 0x1p-53,
					 (int)(random_bits(&seed) % (uint64_t)spread) - spread / 2);

			x = bits & 1 ? -x : x;
			if (bits & 2)
				x = -last;
			last = x;
			add(&groups, x);
			exact_sum_add(&expected, x);
			assert_true(sum_of(&groups) == exact_sum_value(&expected));
		}
	}
}

/* A quotient of two ints below 2^53 is rounded once, by the processor. */
TEST(means_are_rounded_once)
{
	uint64_t seed = 7;

	for (int round = 0; round < 1000; round++) {
		const uint64_t count = random_bits(&seed) % 1000 + 1;
		const int scale = (int)(random_bits(&seed) % 1900) - 950;
		struct groups groups = { { 0 } };
		int64_t sum = 0;

		for (uint64_t i = 0; i < count; i++) {
			const int64_t n = (int64_t)(random_bits(&seed) >> 24) - (1LL << 39);

			sum += n;
			add(&groups, ldexp((double)n, scale));
		}
		assert_true(sum_of(&groups) == ldexp((double)sum, scale));
		assert_true(mean_of(&groups, count) == ldexp((double)sum / (double)count, scale));
	}
}

TEST(the_smallest_and_the_largest)
{
	struct groups groups = { { 0 } };

	assert_true(sum_of(&groups) == 0);
	for (int i = 0; i < 3; i++)
		add(&groups, DBL_TRUE_MIN);
	assert_true(sum_of(&groups) == 3 * DBL_TRUE_MIN);
	assert_true(mean_of(&groups, 2) == 2 * DBL_TRUE_MIN);
	assert_true(mean_of(&groups, 6) == 0);
	assert_true(mean_of(&groups, 5) == DBL_TRUE_MIN);
	for (int i = 0; i < 3; i++)
		add(&groups, DBL_MAX);
	assert_true(sum_of(&groups) == HUGE_VAL);
	assert_true(mean_of(&groups, 3) == DBL_MAX);
	add(&groups, -DBL_MAX);
	add(&groups, -DBL_MAX);
	assert_true(sum_of(&groups) == DBL_MAX);
	add(&groups, -DBL_MAX);
	assert_true(sum_of(&groups) == 3 * DBL_TRUE_MIN);
	add(&groups, -DBL_MAX);
	add(&groups, -DBL_MAX);
	assert_true(sum_of(&groups) == -HUGE_VAL);
	/* As many of the largest as there can be hits. */
	groups = (struct groups){ { 0 } };
	add(&groups, DBL_MAX);
	for (size_t i = 0; i < MEASURE_FLOAT_GROUPS; i++)
		groups.sums[i] *= UINT64_MAX;
	assert_true(mean_of(&groups, UINT64_MAX) == DBL_MAX);
	for (size_t i = 0; i < MEASURE_FLOAT_GROUPS; i++)
		groups.sums[i] = -groups.sums[i];
	assert_true(mean_of(&groups, UINT64_MAX) == -DBL_MAX);
}

/* Close to the middle between two of the smallest floats, by less than a float's bits can tell. */
TEST(means_are_not_rounded_twice)
{
	const uint64_t count = (1ULL << 60) + 1;
	struct groups groups = { { 0 } };

	add(&groups, DBL_TRUE_MIN);
	groups.sums[0] *= (3 * (__int128)count - 1) / 2;
	assert_true(mean_of(&groups, count) == DBL_TRUE_MIN);
	groups = (struct groups){ { 0 } };
	add(&groups, -DBL_TRUE_MIN);
	groups.sums[0] *= (count + 1) / 2;
	assert_true(mean_of(&groups, count) == -DBL_TRUE_MIN);
	/* And a multiple of 2^900 and 3 with it. */
	groups = (struct groups){ { 0 } };
	for (int i = 0; i < 3; i++) {
		add(&groups, 0x1p900);
		add(&groups, 0x1p847);
	}
	assert_true(mean_of(&groups, 3) == 0x1p900);
	add(&groups, DBL_TRUE_MIN);
	assert_true(mean_of(&groups, 3) == 0x1.0000000000001p900);
}

TEST(differences_are_exact)
{
	struct groups all = { { 0 } }, first = { { 0 } }, second = { { 0 } };
	uint64_t seed = 31;

	for (int i = 0; i < 10000; i++) {
		const double x = some_float(&seed, i);
		struct float_sum difference;

		if (!isfinite(x))
			continue;
		add(&all, x);
		add(i % 3 ? &first : &second, x);
		if (i % 100)
			continue;
		difference = float_sum_of(all.sums);
		float_sum_subtract(&difference, &(struct float_sum){ { 0 } });
		assert_true(float_sum_value(&difference) == sum_of(&all));
		difference = float_sum_of(all.sums);
		float_sum_subtract(&difference, (struct float_sum[]){ float_sum_of(first.sums) });
		assert_memory_equal(&difference, (struct float_sum[]){ float_sum_of(second.sums) },
				    sizeof(difference));
	}
}

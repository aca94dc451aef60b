/* SPDX-License-Identifier: MIT */
/*
 * Histograms of the floats among the values of an argument. The objects that read arguments have a
 * separate map for them, with the same numbers as `histograms`. It is not pinned.
 *
 *	float_histograms  per-CPU array  number  struct measure_floats
 *
 * Buckets. On each side of 0, each power of 2 from 2^-32 to 2^63 has 8 buckets of equal width; one
 * more bucket has the floats that are closer to 0, and one the floats that are farther from 0.
 * Between the two sides is the bucket of 0.0 and -0.0. Buckets are sorted by value. A bucket
 * contains its smallest value, but not the smallest value of the next bucket.
 *
 * Sums. BPF has no floating point, and a sum that is rounded at each addition depends on the order.
 * But every finite double is an integer below 2^53 times a power of 2. The 2046 exponents are in
 * groups of 8. Each group has the exact sum of its integers, each shifted left by the difference
 * between its exponent and the smallest exponent of the group. A shifted integer has 60 bits and a
 * sign, and the sum has 128 bits. The reader adds up the groups (src/measure/float_sum.c).
 *
 * The includer provides the __u32 and __u64 types.
 */
#ifndef MEASURE_FLOATS_H
#define MEASURE_FLOATS_H

#include "args.h"

enum {
	FLOAT_MANTISSA_BITS = 52, /* without the leading 1 */
	FLOAT_EXPONENT_BITS = 11,
	FLOAT_BIAS = 1023,

	MEASURE_FLOAT_LOWEST = -32, /* the exponent of the smallest power of 2 that has 8 buckets */
	/* the exponent of the largest power of 2 that has 8 buckets, plus 1 */
	MEASURE_FLOAT_HIGHEST = 64,
	MEASURE_FLOAT_SHIFT = FLOAT_MANTISSA_BITS - 3,
	/* The buckets on one side of 0: 8 per power of 2, one closer to 0, and one for the rest. */
	MEASURE_FLOAT_SIDE = 8 * (MEASURE_FLOAT_HIGHEST - MEASURE_FLOAT_LOWEST) + 2,
	MEASURE_FLOAT_ZERO = MEASURE_FLOAT_SIDE, /* the bucket of 0.0 and -0.0 */
	MEASURE_FLOAT_BUCKETS = 2 * MEASURE_FLOAT_SIDE + 1,

	MEASURE_FLOAT_GROUP_BITS = 3,
	MEASURE_FLOAT_GROUPS = 1 << (FLOAT_EXPONENT_BITS - MEASURE_FLOAT_GROUP_BITS),
};

#define FLOAT_SIGN (1ULL << 63)

struct measure_floats {
	__u64 count; /* finite floats; all members after minus_inf are about these */
	__u64 nan, inf, minus_inf;
	/* the largest float, by measure_float_ordered(), so that 0 is below every float */
	__u64 max;
	__u64 min_not; /* ~ of the smallest, by measure_float_ordered() */
	/* each with 128 bits, as in struct measure_histogram */
	__u64 sums[MEASURE_FLOAT_GROUPS][2];
	__u64 buckets[MEASURE_FLOAT_BUCKETS];
};

_Static_assert(sizeof(struct measure_floats) ==
		       48 + 16 * MEASURE_FLOAT_GROUPS + 8 * MEASURE_FLOAT_BUCKETS,
	       "shared by two compilers");

/* Return the bits of the double 2^EXPONENT. */
static inline __attribute__((always_inline)) __u64 measure_float_power(int exponent)
{
	return (__u64)(exponent + FLOAT_BIAS) << FLOAT_MANTISSA_BITS;
}

/*
 * Return the bucket of the finite float with BITS. Without the sign, bits are in the order of the
 * absolute values. Below 0, a bucket contains the bound that is farther from 0, so that 1 is
 * subtracted from the bits.
 */
static inline __attribute__((always_inline)) __u32 measure_float_bucket_of(__u64 bits)
{
	const __u64 lowest = measure_float_power(MEASURE_FLOAT_LOWEST);
	const __u64 end = measure_float_power(MEASURE_FLOAT_HIGHEST);
	const __u64 is_negative = bits >> 63, size = bits & ~FLOAT_SIGN;
	const __u64 place = size - is_negative;
	__u32 distance;

	if (!size)
		return MEASURE_FLOAT_ZERO;
	if (place < lowest)
		distance = 1;
	else if (place >= end)
		distance = MEASURE_FLOAT_SIDE;
	else
		distance = 2 + (__u32)((place - lowest) >> MEASURE_FLOAT_SHIFT);
	return is_negative ? MEASURE_FLOAT_ZERO - distance : MEASURE_FLOAT_ZERO + distance;
}

/*
 * Return the bits of the smallest float in BUCKET, or the bits of infinity for
 * MEASURE_FLOAT_BUCKETS.
 */
static inline __attribute__((always_inline)) __u64 measure_float_bucket_start(__u32 bucket)
{
	const __u64 lowest = measure_float_power(MEASURE_FLOAT_LOWEST);
	__u32 distance;

	if (bucket >= MEASURE_FLOAT_BUCKETS)
		return FILTER_INFINITY_BITS;
	if (bucket == MEASURE_FLOAT_ZERO)
		return 0;
	if (bucket > MEASURE_FLOAT_ZERO) {
		distance = bucket - MEASURE_FLOAT_ZERO;
		return distance == 1 ? 1 : lowest + ((__u64)(distance - 2) << MEASURE_FLOAT_SHIFT);
	}
	distance = MEASURE_FLOAT_ZERO - bucket;
	if (distance == MEASURE_FLOAT_SIDE)
		return FLOAT_SIGN | (FILTER_INFINITY_BITS - 1);
	return FLOAT_SIGN | (lowest + ((__u64)(distance - 1) << MEASURE_FLOAT_SHIFT));
}

/*
 * Map the bits of a float other than nan to an unsigned number. The numbers are in the order of the
 * floats; -0.0 is below 0.0.
 */
static inline __attribute__((always_inline)) __u64 measure_float_ordered(__u64 bits)
{
	return bits & FLOAT_SIGN ? ~bits : bits | FLOAT_SIGN;
}

static inline __attribute__((always_inline)) __u64 measure_float_of_ordered(__u64 ordered)
{
	return ordered & FLOAT_SIGN ? ordered ^ FLOAT_SIGN : ~ordered;
}

/*
 * Return the group of the finite float with BITS. Set *NUMBER to the summand of the float in the
 * group's sum.
 */
static inline __attribute__((always_inline)) __u32 measure_float_group(__u64 bits, __s64 *number)
{
	__u64 size = bits & ((1ULL << FLOAT_MANTISSA_BITS) - 1);
	__u32 exponent = (__u32)(bits >> FLOAT_MANTISSA_BITS) & ((1 << FLOAT_EXPONENT_BITS) - 1);

	/*
	 * Floats with exponent 0 have no leading 1, and the same scale as floats with exponent 1.
	 */
	if (exponent)
		size |= 1ULL << FLOAT_MANTISSA_BITS;
	else
		exponent = 1;
	size <<= exponent & ((1 << MEASURE_FLOAT_GROUP_BITS) - 1);
	*number = bits & FLOAT_SIGN ? -(__s64)size : (__s64)size;
	return exponent >> MEASURE_FLOAT_GROUP_BITS;
}

#endif

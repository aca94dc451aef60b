/* SPDX-License-Identifier: MIT */
/*
 * Histograms of the float values of an argument. The objects that read arguments have a separate
 * map for these histograms, with the same indices as `histograms`. The map is not pinned.
 *
 *	float_histograms  per-CPU array  number  struct measure_floats
 *
 * Buckets. On each side of 0, each range from 2^n up to 2^(n + 1), n = -32 to 63, has 8 buckets of
 * equal width. One more bucket on each side is for the floats closer to 0 than these, and one for
 * the floats farther from 0. Between the two sides is the bucket of 0.0 and -0.0. Buckets are
 * sorted by value. A bucket contains its smallest value, but not the smallest value of the next
 * bucket.
 *
 * Sums. Sums are exact, since a sum that is rounded at each addition depends on the order of the
 * additions; and BPF has no floating point. Every finite double is the product of a power of 2 and
 * a signed integer of at most 53 bits. The 2046 possible exponents form groups of 8. For each group
 * there is one sum of 128 bits. To add a double to the sum of its group, its integer is shifted
 * left by the double's exponent minus the smallest exponent of the group; the shifted integer has
 * at most 60 bits and a sign. The reader adds up the sums of the groups (src/measure/float_sum.c).
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
	/*
	 * The buckets on one side of 0: 8 per power of 2, one closer to 0 and one farther from 0.
	 */
	MEASURE_FLOAT_SIDE = 8 * (MEASURE_FLOAT_HIGHEST - MEASURE_FLOAT_LOWEST) + 2,
	MEASURE_FLOAT_ZERO = MEASURE_FLOAT_SIDE, /* the bucket of 0.0 and -0.0 */
	MEASURE_FLOAT_BUCKETS = 2 * MEASURE_FLOAT_SIDE + 1,

	MEASURE_FLOAT_GROUP_BITS = 3,
	MEASURE_FLOAT_GROUPS = 1 << (FLOAT_EXPONENT_BITS - MEASURE_FLOAT_GROUP_BITS),
};

#define FLOAT_SIGN (1ULL << 63)

struct measure_floats {
	/* the number of finite floats; all members after minus_inf are about finite floats only */
	__u64 count;
	__u64 nan, inf, minus_inf;
	/* measure_float_ordered() of the largest float; 0: there was no float */
	__u64 max;
	__u64 min_not; /* bitwise complement of measure_float_ordered() of the smallest float */
	/* one sum for each group of exponents, 128 bits each, the lower half first */
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
 * Return the bucket of the finite float with BITS. If the sign bit is cleared, the bits, as
 * integers, have the order of the absolute values. A bucket contains its smaller bound. Below 0,
 * this is the bound that is farther from 0, so 1 is subtracted from the bits before the bucket is
 * computed.
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
 * Map the bits of a float other than nan to an unsigned integer above 0. The integers have the
 * order of the floats; -0.0 is below 0.0.
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
 * Return the group of the finite float with BITS. Set *NUMBER to what the float adds to the sum of
 * this group: see "Sums" above.
 */
static inline __attribute__((always_inline)) __u32 measure_float_group(__u64 bits, __s64 *number)
{
	__u64 size = bits & ((1ULL << FLOAT_MANTISSA_BITS) - 1);
	__u32 exponent = (__u32)(bits >> FLOAT_MANTISSA_BITS) & ((1 << FLOAT_EXPONENT_BITS) - 1);

	/*
	 * Floats with exponent 0 (subnormals) have no leading 1, and count in the same unit as
	 * floats with exponent 1.
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

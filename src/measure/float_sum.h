/* SPDX-License-Identifier: MIT */
/*
 * The exact sum of finite floats, as an integer that is large enough for all of them, in units of
 * 2^FLOAT_SUM_UNIT. The sum is rounded only once, when it is converted to a float.
 */
#ifndef MEASURE_FLOAT_SUM_H
#define MEASURE_FLOAT_SUM_H

#include <linux/types.h>
#include <stdint.h>
#include "measure_floats.h"

enum {
	/*
	 * The sum of a group is an integer in units of 2^(exponent - FLOAT_BIAS -
	 * FLOAT_MANTISSA_BITS), where exponent is the smallest biased exponent of the group. This
	 * constant is for group 0, whose exponent is 0.
	 */
	FLOAT_SUM_UNIT = -FLOAT_BIAS - FLOAT_MANTISSA_BITS,
	/* The sum of 2^64 floats is below 2^(1024 + 64). One more bit is for the sign. */
	FLOAT_SUM_WORDS = (1024 + 64 - FLOAT_SUM_UNIT) / 64 + 1,
};

/* A sum in units of 2^FLOAT_SUM_UNIT, as an integer in two's complement, the lowest word first. */
struct float_sum {
	uint64_t words[FLOAT_SUM_WORDS];
};

/* Add up GROUPS, the sums that bpf/measure_floats.h describes. */
struct float_sum float_sum_of(const __int128 groups[MEASURE_FLOAT_GROUPS]);
void float_sum_subtract(struct float_sum *sum, const struct float_sum *other);

/* Return the float nearest to SUM, or to SUM / COUNT, with ties to even. COUNT is not 0. */
double float_sum_value(const struct float_sum *sum);
double float_sum_mean(const struct float_sum *sum, uint64_t count);

#endif

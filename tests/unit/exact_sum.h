/* SPDX-License-Identifier: MIT */
/*
 * Sums of floats, rounded once, by another way than the library's: a list of floats that do not
 * overlap (J. R. Shewchuk, "Adaptive precision floating-point arithmetic", 1997), as Python's
 * math.fsum has it. No part of a sum may be too large for a float.
 */
#ifndef TESTS_UNIT_EXACT_SUM_H
#define TESTS_UNIT_EXACT_SUM_H

#include <stddef.h>
#include <stdint.h>

enum { EXACT_SUM_PARTS = 64 };

struct exact_sum {
	double parts[EXACT_SUM_PARTS]; /* by size, the smallest first */
	size_t n;
};

void exact_sum_add(struct exact_sum *sum, double x);
double exact_sum_value(const struct exact_sum *sum);

/* Floats of any kind: SEED is changed. */
uint64_t random_bits(uint64_t *seed);
double float_of_bits(uint64_t bits);
uint64_t bits_of_float(double x);

#endif

// SPDX-License-Identifier: MIT
#include "exact_sum.h"

#include <math.h>
#include <string.h>
#include "unit.h"

void exact_sum_add(struct exact_sum *sum, double x)
{
	size_t n = 0;

	for (size_t i = 0; i < sum->n; i++) {
		double y = sum->parts[i];
		volatile double high, low;

		if (fabs(x) < fabs(y)) {
			const double other = x;

			x = y;
			y = other;
		}
		high = x + y;
		low = high - x;
		low = y - low;
		if (low != 0)
			sum->parts[n++] = low;
		x = high;
	}
	assert_true(isfinite(x) && n < EXACT_SUM_PARTS);
	sum->parts[n++] = x;
	sum->n = n;
}

double exact_sum_value(const struct exact_sum *sum)
{
	size_t n = sum->n;
	volatile double high = 0, low = 0, before;

	if (!n)
		return 0;
	high = sum->parts[--n];
	while (n > 0) {
		before = high;
		high = before + sum->parts[--n];
		low = sum->parts[n] - (high - before);
		if (low != 0)
			break;
	}
	/* Half of the last bit: the parts below decide. */
	if (n > 0 && ((low < 0 && sum->parts[n - 1] < 0) || (low > 0 && sum->parts[n - 1] > 0))) {
		const volatile double twice = low * 2, up = high + twice;

		if (twice == up - high)
			high = up;
	}
	return high;
}

/* xorshift64*. */
uint64_t random_bits(uint64_t *seed)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return *seed * 0x2545f4914f6cdd1dULL;
}

double float_of_bits(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

uint64_t bits_of_float(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

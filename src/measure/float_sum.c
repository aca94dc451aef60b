// SPDX-License-Identifier: MIT
#include "measure/float_sum.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
	WORD_BITS = 64,
	NUMBER_BITS = 128,
	/* the unit of a group is 2^GROUP_BITS times the unit of the group before it */
	GROUP_BITS = 1 << MEASURE_FLOAT_GROUP_BITS,
	MOST_WORDS = FLOAT_SUM_WORDS + 1,	 /* one more word for the fraction of a mean */
	LOWEST_BIT = DBL_MIN_EXP - DBL_MANT_DIG, /* 2^LOWEST_BIT is the smallest float above 0 */
};

_Static_assert(DBL_MANT_DIG == FLOAT_MANTISSA_BITS + 1 && DBL_MAX_EXP == FLOAT_BIAS + 1,
	       "floats are those of OCaml");

/* Add NUMBER << SHIFT to SUM. */
static void add_shifted(struct float_sum *sum, __int128 number, size_t shift)
{
	const size_t bits = shift % WORD_BITS;
	const uint64_t sign = number < 0 ? UINT64_MAX : 0;
	const unsigned __int128 low = (unsigned __int128)number << bits;
	const uint64_t parts[] = {
		(uint64_t)low,
		(uint64_t)(low >> WORD_BITS),
		bits ? (uint64_t)(number >> (NUMBER_BITS - bits)) : sign,
	};
	bool carry = false;

	for (size_t i = shift / WORD_BITS, part = 0; i < FLOAT_SUM_WORDS; i++, part++) {
		const unsigned __int128 word =
			(unsigned __int128)sum->words[i] + (part < 3 ? parts[part] : sign) + carry;

		sum->words[i] = (uint64_t)word;
		carry = word >> WORD_BITS;
	}
}

struct float_sum float_sum_of(const __int128 groups[MEASURE_FLOAT_GROUPS])
{
	struct float_sum sum = { { 0 } };

	for (size_t i = 0; i < MEASURE_FLOAT_GROUPS; i++)
		if (groups[i])
			add_shifted(&sum, groups[i], i * GROUP_BITS);
	return sum;
}

void float_sum_subtract(struct float_sum *sum, const struct float_sum *other)
{
	bool borrow = false;

	for (size_t i = 0; i < FLOAT_SUM_WORDS; i++) {
		const unsigned __int128 word =
			(unsigned __int128)sum->words[i] - other->words[i] - borrow;

		sum->words[i] = (uint64_t)word;
		borrow = word >> WORD_BITS;
	}
}

/* ---- rounding ------------------------------------------------------------------------------- */

/* A number: a sign, and an absolute value, which is the integer `words` times 2^unit. */
struct number {
	uint64_t words[MOST_WORDS];
	int unit;
	bool is_negative;
};

static struct number sum_to_number(const struct float_sum *sum)
{
	struct number number = { .unit = FLOAT_SUM_UNIT,
				 .is_negative =
					 sum->words[FLOAT_SUM_WORDS - 1] >> (WORD_BITS - 1) };
	const struct float_sum zero = { { 0 } };
	struct float_sum size = number.is_negative ? zero : *sum;

	if (number.is_negative)
		float_sum_subtract(&size, sum);
	memcpy(number.words, size.words, sizeof(size.words));
	return number;
}

static bool bit_of(const struct number *number, int bit)
{
	return number->words[bit / WORD_BITS] >> (bit % WORD_BITS) & 1;
}

/* Return the number of the highest bit that is set; -1 if NUMBER is 0. */
static int highest_bit(const struct number *number)
{
	int bit = MOST_WORDS * WORD_BITS - 1;

	while (bit >= 0 && !bit_of(number, bit))
		bit--;
	return bit;
}

static bool has_bits_below(const struct number *number, int end)
{
	for (int bit = 0; bit < end; bit++)
		if (bit_of(number, bit))
			return true;
	return false;
}

static double rounded(const struct number *number)
{
	const int highest = highest_bit(number);
	/* the lowest bit of NUMBER that the result can represent */
	int lowest = highest - DBL_MANT_DIG + 1;
	uint64_t kept = 0;
	double size;

	if (lowest < LOWEST_BIT - number->unit)
		lowest = LOWEST_BIT - number->unit;
	for (int bit = highest; bit >= lowest && bit >= 0; bit--)
		kept = kept << 1 | bit_of(number, bit);
	if (lowest < 0)
		lowest = 0;
	if (lowest > 0 && bit_of(number, lowest - 1) &&
	    (kept & 1 || has_bits_below(number, lowest - 1)))
		kept++;
	size = ldexp((double)kept, lowest + number->unit);
	return number->is_negative ? -size : size;
}

double float_sum_value(const struct float_sum *sum)
{
	const struct number number = sum_to_number(sum);

	return rounded(&number);
}

double float_sum_mean(const struct float_sum *sum, uint64_t count)
{
	struct number number = sum_to_number(sum);
	unsigned __int128 rest = 0;

	/*
	 * One word is enough for the fraction of the quotient. The bits of this word are below the
	 * last bit of any float, so they only decide the rounding. For this it is enough to know
	 * whether the fraction is 0: a fraction other than 0 is at least 2^-64, because COUNT is
	 * below 2^64, so it sets a bit of this word.
	 */
	memmove(number.words + 1, number.words, FLOAT_SUM_WORDS * sizeof(*number.words));
	number.words[0] = 0;
	number.unit -= WORD_BITS;
	for (size_t i = MOST_WORDS; i-- > 0;) {
		rest = rest << WORD_BITS | number.words[i];
		number.words[i] = (uint64_t)(rest / count);
		rest %= count;
	}
	return rounded(&number);
}

// SPDX-License-Identifier: MIT
#include "measure/assertion.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing -------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum assertion_function function;
	unsigned int permille;
} assertion_functions[] = {
	{ "count", ASSERT_COUNT, 0 },	  { "rate", ASSERT_RATE, 0 },
	{ "mean", ASSERT_MEAN, 0 },	  { "min", ASSERT_MIN, 0 },
	{ "max", ASSERT_MAX, 0 },	  { "p50", ASSERT_QUANTILE, 500 },
	{ "p90", ASSERT_QUANTILE, 900 },  { "p99", ASSERT_QUANTILE, 990 },
	{ "p999", ASSERT_QUANTILE, 999 },
};

/* An operator that begins with another one comes first. */
static const struct {
	const char *text;
	enum assertion_operator op;
} assertion_operators[] = {
	{ "<=", ASSERT_AT_MOST }, { ">=", ASSERT_AT_LEAST }, { "==", ASSERT_EQUAL },
	{ "<", ASSERT_LESS },	  { ">", ASSERT_MORE },
};

static const struct {
	const char *unit;
	double ns;
} time_units[] = {
	{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 },
};

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t");
}

/* Return true if TEXT, from the first BYTES on, has nothing but blanks. */
static bool is_last(const char *text, size_t bytes)
{
	return !*skip_blanks(text + bytes);
}

static bool read_function(struct assertion *a, const char *text, size_t bytes)
{
	while (bytes && isspace((unsigned char)text[bytes - 1]))
		bytes--;
	for (size_t i = 0; i < sizeof(assertion_functions) / sizeof(*assertion_functions); i++) {
		if (strlen(assertion_functions[i].name) != bytes ||
		    strncmp(assertion_functions[i].name, text, bytes) != 0)
			continue;
		a->function = assertion_functions[i].function;
		a->permille = assertion_functions[i].permille;
		return true;
	}
	return false;
}

static bool read_operator(struct assertion *a, const char **at)
{
	for (size_t i = 0; i < sizeof(assertion_operators) / sizeof(*assertion_operators); i++) {
		const size_t bytes = strlen(assertion_operators[i].text);

		if (strncmp(*at, assertion_operators[i].text, bytes) != 0)
			continue;
		a->op = assertion_operators[i].op;
		*at += bytes;
		return true;
	}
	return false;
}

/* Multiply the bound by the unit UNIT, the text behind the number. */
static const char *apply_unit(struct assertion *a, const char *unit)
{
	if (!assertion_is_about_time(a)) {
		const size_t bytes =
			a->function == ASSERT_RATE && strncmp(unit, "/s", 2) == 0 ? 2 : 0;

		return is_last(unit, bytes) ? NULL
		       : a->function == ASSERT_RATE
			       ? "the bound is not a number of hits a second, such as 100"
			       : "the bound is not a number";
	}
	for (size_t i = 0; i < sizeof(time_units) / sizeof(*time_units); i++) {
		const size_t bytes = strlen(time_units[i].unit);

		if (strncmp(unit, time_units[i].unit, bytes) != 0 || !is_last(unit, bytes))
			continue;
		a->bound *= time_units[i].ns;
		return NULL;
	}
	return a->bound == 0 && is_last(unit, 0)
		       ? NULL
		       : "the bound is not a time with its unit, such as 500us, 5ms or 1.5s";
}

/* Read the bound at TEXT. Return NULL, or what is wrong. */
static const char *read_bound(struct assertion *a, const char *text)
{
	char *end;

	errno = 0;
	/* strtod() also reads hexadecimal numbers, nan and inf, which nobody means. */
	if (!isdigit((unsigned char)*text) || (text[0] == '0' && tolower(text[1]) == 'x'))
		return "the bound is not a number of 0 or more";
	a->bound = strtod(text, &end);
	return errno ? "the bound is too large" : apply_unit(a, skip_blanks(end));
}

static int parse_subject(struct assertion *a, const char *start, const char *end, const char **why)
{
	start = skip_blanks(start);
	while (end > start && isspace((unsigned char)end[-1]))
		end--;
	if (end == start) {
		*why = "nothing is named in the parentheses";
		return -EINVAL;
	}
	a->subject = strndup(start, (size_t)(end - start));
	return a->subject ? 0 : -ENOMEM;
}

int assertion_parse(const char *text, struct assertion *a, const char **why)
{
	const char *open = strchr(text, '('), *close, *at;

	*a = (struct assertion){ .text = text };
	/* The name of a function may have parentheses: the last one closes. */
	close = open ? strrchr(open, ')') : NULL;
	*why = "not FUNCTION(NAME) OPERATOR BOUND, such as 'p99(fn:X.f) < 5ms'";
	if (!close)
		return -EINVAL;
	if (!read_function(a, skip_blanks(text), (size_t)(open - skip_blanks(text)))) {
		*why = "not one of the functions count, rate, mean, min, max, p50, p90, p99 and "
		       "p999";
		return -EINVAL;
	}
	at = skip_blanks(close + 1);
	if (!read_operator(a, &at)) {
		*why = "none of the operators <, <=, >, >= and == follows the parentheses";
		return -EINVAL;
	}
	*why = read_bound(a, skip_blanks(at));
	return *why ? -EINVAL : parse_subject(a, open + 1, close, why);
}

void assertion_free(struct assertion *a)
{
	free(a->subject);
	a->subject = NULL;
}

/* ---- subjects ------------------------------------------------------------------------------- */

bool assertion_is_about_time(const struct assertion *a)
{
	return a->function != ASSERT_COUNT && a->function != ASSERT_RATE;
}

bool assertion_names_pair(const struct assertion *a, const char *start, const char *stop)
{
	const size_t bytes = strlen(start);
	const char *rest;

	if (strncmp(a->subject, start, bytes) != 0)
		return false;
	rest = a->subject + bytes;
	if (!*stop || !*rest)
		return !*stop && !*rest;
	rest = skip_blanks(rest);
	return *rest == ',' && strcmp(skip_blanks(rest + 1), stop) == 0;
}

/* ---- deciding ------------------------------------------------------------------------------- */

/* Return the verdict if the condition holds for all of the range, and for none of it. */
static enum verdict verdict_of(bool holds_for_all, bool fails_for_all)
{
	return holds_for_all ? VERDICT_HOLDS : fails_for_all ? VERDICT_FAILS : VERDICT_UNDECIDED;
}

static enum verdict compare(const struct assertion *a, double low, double high)
{
	const double bound = a->bound;

	switch (a->op) {
	case ASSERT_LESS:
		return verdict_of(high < bound, low >= bound);
	case ASSERT_AT_MOST:
		return verdict_of(high <= bound, low > bound);
	case ASSERT_MORE:
		return verdict_of(low > bound, high <= bound);
	case ASSERT_AT_LEAST:
		return verdict_of(low >= bound, high < bound);
	default:
		return verdict_of(low == bound && high == bound, high < bound || low > bound);
	}
}

/* Set *LOW and *HIGH to the ends of what is known of the quantile of PAIR. */
static void find_quantile(const struct ocp_pair *pair, unsigned int permille, double *low,
			  double *high)
{
	/* The number of times that do not exceed the quantile: permille of n, rounded up. */
	const uint64_t n = pair->count;
	const uint64_t rank =
		n - (n / 1000 * (1000 - permille) + n % 1000 * (1000 - permille) / 1000);
	uint64_t first, last, below = 0;
	size_t i = 0;

	while (i < OCP_BUCKETS - 1 && below + pair->buckets[i] < rank)
		below += pair->buckets[i++];
	first = ocp_bucket_start(i);
	last = ocp_bucket_start(i + 1) - 1;
	*low = (double)(first < pair->min_ns ? pair->min_ns : first);
	*high = (double)(last > pair->max_ns ? pair->max_ns : last);
}

static struct assertion_result decide_time(const struct assertion *a, const struct ocp_pair *pair)
{
	struct assertion_result result = { .calls = pair->count };

	if (pair->map_full || pair->mismatched) {
		result.verdict = VERDICT_UNDECIDED;
		result.why = pair->map_full ? "there was no room for some of the starts"
					    : "some starts and stops are of different requests";
		return result;
	}
	if (!pair->count) {
		result.verdict = VERDICT_FAILS;
		result.why = "no calls";
		return result;
	}
	if (a->function == ASSERT_QUANTILE)
		find_quantile(pair, a->permille, &result.low, &result.high);
	else if (a->function == ASSERT_MEAN)
		result.low = result.high = (double)pair->sum_ns / (double)pair->count;
	else
		result.low = result.high =
			(double)(a->function == ASSERT_MIN ? pair->min_ns : pair->max_ns);
	result.verdict = compare(a, result.low, result.high);
	return result;
}

struct assertion_result assertion_decide_hits(const struct assertion *a, uint64_t hits,
					      int64_t time_ns)
{
	struct assertion_result result = { .low = (double)hits };

	if (a->function == ASSERT_RATE)
		result.low = time_ns > 0 ? (double)hits * 1e9 / (double)time_ns : 0;
	result.high = result.low;
	result.verdict = compare(a, result.low, result.high);
	return result;
}

struct assertion_result assertion_decide_pair(const struct assertion *a,
					      const struct ocp_pair *pair, int64_t time_ns)
{
	struct assertion_result result;

	if (assertion_is_about_time(a))
		return decide_time(a, pair);
	result = assertion_decide_hits(a, pair->count, time_ns);
	if (pair->map_full) {
		result.verdict = VERDICT_UNDECIDED;
		result.why = "there was no room for some of the starts";
	}
	return result;
}

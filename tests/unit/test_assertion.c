// SPDX-License-Identifier: MIT
/* Assertions: what is accepted, and how they are decided for histograms that are made here. */
#include <errno.h>
#include <string.h>

#include "measure/assertion.h"
#include "unit.h"

static struct assertion parsed(const char *text)
{
	struct assertion a;
	const char *why;

	assert_int_equal(assertion_parse(text, &a, &why), 0);
	return a;
}

TEST(all_functions_operators_and_units)
{
	static const struct {
		const char *text, *subject;
		enum assertion_function function;
		unsigned int permille;
		enum assertion_operator op;
		double bound;
	} cases[] = {
		{ "p99(fn:X.f) < 5ms", "fn:X.f", ASSERT_QUANTILE, 990, ASSERT_LESS, 5e6 },
		{ "p50(a,b)<=1.5s", "a,b", ASSERT_QUANTILE, 500, ASSERT_AT_MOST, 1.5e9 },
		{ " p90 ( fn:L.(@) ) > 7 us ", "fn:L.(@)", ASSERT_QUANTILE, 900, ASSERT_MORE, 7e3 },
		{ "p999(c:f)>=12ns", "c:f", ASSERT_QUANTILE, 999, ASSERT_AT_LEAST, 12 },
		{ "mean(gc:minor) == 2m", "gc:minor", ASSERT_MEAN, 0, ASSERT_EQUAL, 120e9 },
		{ "min(x) > 0", "x", ASSERT_MIN, 0, ASSERT_MORE, 0 },
		{ "max(x) < 1h", "x", ASSERT_MAX, 0, ASSERT_LESS, 3600e9 },
		{ "count(x)==1000", "x", ASSERT_COUNT, 0, ASSERT_EQUAL, 1000 },
		{ "rate(x) >= 99.5", "x", ASSERT_RATE, 0, ASSERT_AT_LEAST, 99.5 },
		{ "rate(fn:M.f.(fun)) < 1e3/s", "fn:M.f.(fun)", ASSERT_RATE, 0, ASSERT_LESS, 1000 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct assertion a = parsed(cases[i].text);

		assert_string_equal(a.subject, cases[i].subject);
		assert_int_equal(a.function, cases[i].function);
		assert_int_equal(a.permille, cases[i].permille);
		assert_int_equal(a.op, cases[i].op);
		assert_true(a.bound == cases[i].bound);
		assertion_free(&a);
	}
}

TEST(other_texts_are_refused_with_the_reason)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "not FUNCTION(NAME)" },
		{ "p99", "not FUNCTION(NAME)" },
		{ "p99 fn:X.f < 5ms", "not FUNCTION(NAME)" },
		{ "p99(fn:X.f < 5ms", "not FUNCTION(NAME)" },
		{ "p98(x) < 5ms", "not one of the functions" },
		{ "p9(x) < 5ms", "not one of the functions" },
		{ "(x) < 5ms", "not one of the functions" },
		{ "p99() < 5ms", "nothing is named" },
		{ "p99( ) < 5ms", "nothing is named" },
		{ "p99(x)", "none of the operators" },
		{ "p99(x) = 5ms", "none of the operators" },
		{ "p99(x) != 5ms", "none of the operators" },
		{ "p99(x) <", "not a number" },
		{ "p99(x) < ms", "not a number" },
		{ "p99(x) < -5ms", "not a number" },
		{ "p99(x) < nan", "not a number" },
		{ "p99(x) < 0x5ms", "not a number" },
		{ "p99(x) < 1e999s", "too large" },
		{ "p99(x) < 5", "not a time" },
		{ "p99(x) < 5 parsecs", "not a time" },
		{ "p99(x) < 5ms or so", "not a time" },
		{ "count(x) < 5ms", "the bound is not a number" },
		{ "count(x) < 5/s", "the bound is not a number" },
		{ "rate(x) < 5/m", "not a number of hits a second" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct assertion a;
		const char *why;

		assert_int_equal(assertion_parse(cases[i].text, &a, &why), -EINVAL);
		assert_non_null(strstr(why, cases[i].why));
		assertion_free(&a);
	}
}

TEST(subjects_are_pairs_or_calls)
{
	struct assertion pair = parsed("p99(begin, end) < 5ms"),
			 calls = parsed("p99(fn:X.f) < 5ms");

	assert_true(assertion_names_pair(&pair, "begin", "end"));
	assert_false(assertion_names_pair(&pair, "begin", ""));
	assert_false(assertion_names_pair(&pair, "begi", "end"));
	assert_false(assertion_names_pair(&pair, "begin", "en"));
	assert_false(assertion_names_pair(&pair, "end", "begin"));
	assert_true(assertion_names_pair(&calls, "fn:X.f", ""));
	assert_false(assertion_names_pair(&calls, "fn:X", ""));
	assert_false(assertion_names_pair(&calls, "fn:X.f", "end"));
	assertion_free(&pair);
	assertion_free(&calls);
}

/* ---- decisions ------------------------------------------------------------------------------ */

static uint64_t times[OCP_BUCKETS];

static size_t bucket_of(uint64_t ns)
{
	size_t i = 0;

	while (ocp_bucket_start(i + 1) <= ns)
		i++;
	return i;
}

/* 980 calls of 10 ns, 19 of 1000 ns and one of 5000 ns. */
static struct ocp_pair made_pair(void)
{
	memset(times, 0, sizeof(times));
	times[bucket_of(10)] = 980;
	times[bucket_of(1000)] = 19;
	times[bucket_of(5000)] = 1;
	return (struct ocp_pair){ .count = 1000,
				  .sum_ns = 980 * 10 + 19 * 1000 + 5000,
				  .min_ns = 10,
				  .max_ns = 5000,
				  .buckets = times };
}

static struct assertion_result decided(const char *text, const struct ocp_pair *pair)
{
	struct assertion a = parsed(text);
	const struct assertion_result result = assertion_decide_pair(&a, pair, 2000000000);

	assertion_free(&a);
	return result;
}

static enum verdict verdict(const char *text)
{
	const struct ocp_pair pair = made_pair();

	return decided(text, &pair).verdict;
}

TEST(exact_values_are_decided)
{
	static const struct {
		const char *text;
		enum verdict verdict;
	} cases[] = {
		{ "min(x) == 10ns", VERDICT_HOLDS },
		{ "min(x) < 10ns", VERDICT_FAILS },
		{ "min(x) <= 10ns", VERDICT_HOLDS },
		{ "max(x) == 5us", VERDICT_HOLDS },
		{ "max(x) > 5us", VERDICT_FAILS },
		{ "max(x) >= 5us", VERDICT_HOLDS },
		{ "max(x) == 5001ns", VERDICT_FAILS },
		{ "mean(x) == 33.8ns", VERDICT_HOLDS },
		{ "mean(x) < 33.8ns", VERDICT_FAILS },
		{ "mean(x) < 33.9ns", VERDICT_HOLDS },
		{ "count(x) == 1000", VERDICT_HOLDS },
		{ "count(x) < 1000", VERDICT_FAILS },
		{ "count(x) > 999", VERDICT_HOLDS },
		{ "rate(x) == 500", VERDICT_HOLDS },
		{ "rate(x) > 500/s", VERDICT_FAILS },
		{ "rate(x) >= 500", VERDICT_HOLDS },
		/* Values below 16 have a bucket each. */
		{ "p50(x) == 10ns", VERDICT_HOLDS },
		{ "p90(x) <= 10ns", VERDICT_HOLDS },
		{ "p90(x) < 10ns", VERDICT_FAILS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(verdict(cases[i].text), cases[i].verdict);
}

/* The bucket of 1000 ns is 960 to 1023. The 990th and the 999th of 1000 calls are in it. */
TEST(quantiles_are_decided_if_both_ends_of_the_bucket_agree)
{
	const struct ocp_pair pair = made_pair();
	const struct assertion_result result = decided("p99(x) < 1000ns", &pair);

	assert_int_equal(result.verdict, VERDICT_UNDECIDED);
	assert_true(result.low == 960 && result.high == 1023);
	assert_int_equal(result.calls, 1000);
	assert_int_equal(verdict("p99(x) < 1024ns"), VERDICT_HOLDS);
	assert_int_equal(verdict("p99(x) < 1023ns"), VERDICT_UNDECIDED);
	assert_int_equal(verdict("p99(x) <= 1023ns"), VERDICT_HOLDS);
	assert_int_equal(verdict("p99(x) < 961ns"), VERDICT_UNDECIDED);
	assert_int_equal(verdict("p99(x) < 960ns"), VERDICT_FAILS);
	assert_int_equal(verdict("p99(x) <= 959ns"), VERDICT_FAILS);
	assert_int_equal(verdict("p99(x) > 959ns"), VERDICT_HOLDS);
	assert_int_equal(verdict("p99(x) > 960ns"), VERDICT_UNDECIDED);
	assert_int_equal(verdict("p99(x) > 1023ns"), VERDICT_FAILS);
	assert_int_equal(verdict("p99(x) >= 960ns"), VERDICT_HOLDS);
	assert_int_equal(verdict("p99(x) >= 1024ns"), VERDICT_FAILS);
	assert_int_equal(verdict("p99(x) == 1000ns"), VERDICT_UNDECIDED);
	assert_int_equal(verdict("p99(x) == 959ns"), VERDICT_FAILS);
	assert_int_equal(verdict("p999(x) < 1024ns"), VERDICT_HOLDS);
}

/* The minimum and the maximum narrow the bucket. */
TEST(extremes_narrow_a_bucket)
{
	struct ocp_pair pair = made_pair();

	memset(times, 0, sizeof(times));
	times[bucket_of(1000)] = pair.count = 3;
	pair.min_ns = 990;
	pair.max_ns = 1000;
	assert_int_equal(decided("p50(x) < 1001ns", &pair).verdict, VERDICT_HOLDS);
	assert_int_equal(decided("p50(x) < 990ns", &pair).verdict, VERDICT_FAILS);
	pair.min_ns = 1000;
	assert_int_equal(decided("p50(x) == 1us", &pair).verdict, VERDICT_HOLDS);
}

/* The rank is rounded up: of 10 calls, p90 is the ninth, and p99 the tenth. */
TEST(ranks_are_rounded_up)
{
	struct ocp_pair pair = made_pair();

	memset(times, 0, sizeof(times));
	times[3] = 9;
	times[7] = 1;
	pair.count = 10;
	pair.min_ns = 3;
	pair.max_ns = 7;
	assert_int_equal(decided("p90(x) == 3ns", &pair).verdict, VERDICT_HOLDS);
	assert_int_equal(decided("p99(x) == 7ns", &pair).verdict, VERDICT_HOLDS);
	assert_int_equal(decided("p50(x) == 3ns", &pair).verdict, VERDICT_HOLDS);
}

TEST(no_calls_fail_times_and_not_counts)
{
	struct ocp_pair pair = { .buckets = times };
	struct assertion_result result;

	memset(times, 0, sizeof(times));
	result = decided("p99(x) < 5ms", &pair);
	assert_int_equal(result.verdict, VERDICT_FAILS);
	assert_string_equal(result.why, "no calls");
	assert_int_equal(decided("min(x) < 5ms", &pair).verdict, VERDICT_FAILS);
	assert_int_equal(decided("mean(x) == 0", &pair).verdict, VERDICT_FAILS);
	assert_int_equal(decided("count(x) == 0", &pair).verdict, VERDICT_HOLDS);
	assert_int_equal(decided("rate(x) < 1", &pair).verdict, VERDICT_HOLDS);
}

TEST(lost_pairs_leave_it_undecided)
{
	struct ocp_pair pair = made_pair();

	pair.map_full = 1;
	assert_int_equal(decided("p99(x) < 1h", &pair).verdict, VERDICT_UNDECIDED);
	assert_int_equal(decided("count(x) > 1", &pair).verdict, VERDICT_UNDECIDED);
	pair = made_pair();
	pair.mismatched = 1;
	assert_int_equal(decided("max(x) < 1h", &pair).verdict, VERDICT_UNDECIDED);
	assert_int_equal(decided("count(x) == 1000", &pair).verdict, VERDICT_HOLDS);
}

TEST(hits_are_counted_and_rated)
{
	struct assertion count = parsed("count(x) == 30"), rate = parsed("rate(x) == 60/s");

	assert_int_equal(assertion_decide_hits(&count, 30, 1).verdict, VERDICT_HOLDS);
	assert_int_equal(assertion_decide_hits(&count, 31, 1).verdict, VERDICT_FAILS);
	assert_int_equal(assertion_decide_hits(&rate, 30, 500000000).verdict, VERDICT_HOLDS);
	assert_int_equal(assertion_decide_hits(&rate, 30, 0).verdict, VERDICT_FAILS);
	assertion_free(&count);
	assertion_free(&rate);
}

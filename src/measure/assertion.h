/* SPDX-License-Identifier: MIT */
/*
 * Assertions about what was measured: "p99(fn:X.f) < 5ms", "rate(cache_hit) >= 100". This file
 * parses them, and decides them for a pair or for a number of hits.
 */
#ifndef MEASURE_ASSERTION_H
#define MEASURE_ASSERTION_H

#include <stdbool.h>
#include <stdint.h>
#include "ocaml_probes.h"

enum assertion_function {
	ASSERT_COUNT,
	ASSERT_RATE,
	ASSERT_MEAN,
	ASSERT_MIN,
	ASSERT_MAX,
	ASSERT_QUANTILE,
};

enum assertion_operator { ASSERT_LESS, ASSERT_AT_MOST, ASSERT_MORE, ASSERT_AT_LEAST, ASSERT_EQUAL };

struct assertion {
	const char *text; /* as the user wrote it; belongs to the caller */
	enum assertion_function function;
	unsigned int permille; /* for ASSERT_QUANTILE: 500, 900, 990 or 999 */
	char *subject;	       /* START,STOP, or the name of a probe or of a function */
	enum assertion_operator op;
	double bound; /* nanoseconds, hits, or hits per second */
};

/*
 * Parse TEXT: FUNCTION(SUBJECT) OPERATOR BOUND. FUNCTION is count, rate, mean, min, max, p50, p90,
 * p99 or p999, OPERATOR is <, <=, >, >= or ==. The bound of a time has a unit: ns, us, ms, s, m or
 * h; only 0 needs none. The bound of a rate may end with "/s". Return 0, -ENOMEM, or -EINVAL with
 * the reason in *WHY. The caller frees ASSERTION with assertion_free() in all cases.
 */
int assertion_parse(const char *text, struct assertion *assertion, const char **why);
void assertion_free(struct assertion *assertion);

/* Return true if ASSERTION is about the duration of calls, false if it is about their number. */
bool assertion_is_about_time(const struct assertion *assertion);
/*
 * Return true if the subject of ASSERTION is the pair START,STOP or, if STOP is "", the calls of
 * the function START.
 */
bool assertion_names_pair(const struct assertion *assertion, const char *start, const char *stop);

enum verdict {
	VERDICT_HOLDS,
	VERDICT_FAILS,
	VERDICT_UNDECIDED, /* the true value may be on either side of the bound */
};

struct assertion_result {
	enum verdict verdict;
	/* the true value is in this range; equal if the value is exact */
	double low, high;
	uint64_t calls; /* for a time: the number of calls that were timed */
	/* why nothing is known of the value, such as "no calls"; NULL: it is known */
	const char *why;
};

/*
 * Decide ASSERTION for PAIR or for HITS hits, in a span of TIME_NS nanoseconds. A quantile is known
 * within a bucket of the histogram, and within the minimum and the maximum. The quantile q of n
 * times is the smallest one that is not exceeded by at least q n of them. Without calls, an
 * assertion about time fails. Pairs for which there was no room, or whose start and stop belong to
 * different requests, leave it undecided.
 */
struct assertion_result assertion_decide_pair(const struct assertion *assertion,
					      const struct ocp_pair *pair, int64_t time_ns);
struct assertion_result assertion_decide_hits(const struct assertion *assertion, uint64_t hits,
					      int64_t time_ns);

#endif

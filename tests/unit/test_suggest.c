// SPDX-License-Identifier: MIT
/* "Did you mean": close words are found, far ones are not. */
#include <string.h>

#include "base/suggest.h"
#include "unit.h"

static const char *best_of(const char *word, const char *const *candidates)
{
	struct suggestion suggestion = suggestion_for(word);

	while (*candidates)
		suggestion_offer(&suggestion, *candidates++);
	return suggestion.best;
}

TEST(mistakes_of_all_sorts_are_found)
{
	static const char *const probes[] = { "request_done", "request_start", "cache_hit",
					      "gc_minor", NULL };
	static const struct {
		const char *word, *meant;
	} mistakes[] = {
		{ "request_dnoe", "request_done" },   /* swapped */
		{ "request_don", "request_done" },    /* forgotten */
		{ "rrequest_done", "request_done" },  /* doubled */
		{ "request-start", "request_start" }, /* replaced */
		{ "Request_Start", "request_start" }, /* case */
		{ "requst_strat", "request_start" },  /* two */
		{ "cachehit", "cache_hit" },
		{ "gc_mino", "gc_minor" },
		{ "request_of_a_kind", NULL }, /* the same prefix, and no more */
		{ "queue_full", NULL },
		{ "nosuch", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		const char *best = best_of(mistakes[i].word, probes);

		if (mistakes[i].meant)
			assert_string_equal(best ? best : "(none)", mistakes[i].meant);
		else
			assert_null(best);
	}
}

TEST(the_closest_is_taken_and_of_equals_the_first)
{
	static const char *const words[] = { "alpha2", "alpha", "alpha1", NULL };

	assert_string_equal(best_of("alph", words), "alpha");
	assert_string_equal(best_of("alpha3", words), "alpha2");
	assert_string_equal(best_of("alpha", words), "alpha");
}

TEST(the_few_closest_are_taken_in_their_order)
{
	static const char *const words[] = { "alpha22", "alpha",  "alpha2", "beta",
					     "alpha",	"alpha1", "alpha3", NULL };
	struct suggestions few = suggestions_for("alpha");

	for (size_t i = 0; words[i]; i++)
		suggestions_offer(&few, words[i]);
	assert_int_equal(few.n, SUGGESTIONS);
	assert_string_equal(few.near[0], "alpha");
	assert_string_equal(few.near[1], "alpha2");
	assert_string_equal(few.near[2], "alpha1");
	assert_int_equal(few.distances[0], 0);
	assert_int_equal(few.distances[2], 1);
	few = suggestions_for("gamma");
	suggestions_offer(&few, "alpha22");
	assert_int_equal(few.n, 0);
}

TEST(short_words_have_little_in_common)
{
	static const char *const words[] = { "f", "q", "v", "", NULL };

	assert_null(best_of("x", words));
	assert_null(best_of("", words + 4));
}

TEST(long_words_are_left_alone)
{
	char longest[128 + 1], longer[128 + 2];
	const char *const words[] = { longest, longer, NULL };

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_ptr_equal(best_of(longest, words), longest);
	assert_null(best_of(longer, words));
}

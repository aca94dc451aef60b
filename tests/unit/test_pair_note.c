// SPDX-License-Identifier: MIT
/* What is said of a pair with orphans: when, of which side, and what helps. */
#include <string.h>
#include "cli/pair_note.h"
#include "unit.h"

static const char *note_of(const struct ocp_pair *sum)
{
	static char text[PAIR_NOTE_BYTES];

	const bool has_note = pair_note(text, "a", "b", sum);

	assert_int_equal(has_note, text[0] != '\0');
	return text;
}

TEST(few_orphans_are_not_mentioned)
{
	assert_string_equal(note_of(&(struct ocp_pair){ 0 }), "");
	assert_string_equal(
		note_of(&(struct ocp_pair){
			.starts = 1002, .count = 992, .orphan_starts = 10, .orphan_stops = 10 }),
		"");
	/* What is open may stop yet. */
	assert_string_equal(note_of(&(struct ocp_pair){ .starts = 100, .count = 1, .open = 99 }),
			    "");
}

TEST(the_side_and_the_remedy_are_named)
{
	assert_string_equal(
		note_of(&(struct ocp_pair){ .starts = 1000, .count = 990, .orphan_starts = 10 }),
		"a,b: 1% of its starts have no stop; usual causes: an exception skips the stop (use "
		"Fun.protect ~finally), or it is in another thread (use --key argN)");
	/* Of a pair in two threads both sides are orphans. */
	assert_string_equal(
		note_of(&(struct ocp_pair){ .starts = 8, .orphan_starts = 8, .orphan_stops = 9 }),
		"a,b: 100% of its starts have no stop; usual causes: an exception skips the stop (use "
		"Fun.protect ~finally), or it is in another thread (use --key argN)");
	assert_string_equal(
		note_of(&(struct ocp_pair){ .starts = 50, .count = 50, .orphan_stops = 50 }),
		"a,b: 50% of its stops have no start; usual causes: the start came before measuring began, "
		"or is in another thread (use --key argN)");
}

/* Who has a key needs another remedy. */
TEST(keys_have_remedies_of_their_own)
{
	assert_string_equal(
		note_of(&(struct ocp_pair){
			.starts = 10, .count = 9, .orphan_starts = 1, .by_key = true }),
		"a,b: 10% of its starts have no stop; usual causes: an exception skips the stop "
		"(use Fun.protect ~finally), or a key is reused before its stop");
	assert_string_equal(
		note_of(&(struct ocp_pair){
			.starts = 9, .count = 9, .orphan_stops = 1, .by_key = true }),
		"a,b: 10% of its stops have no start; usual causes: the start came before "
		"measuring began, or the two arguments differ");
}

/* Times that are wrong come before those that are missing. */
TEST(pairs_of_two_requests)
{
	assert_string_equal(
		note_of(&(struct ocp_pair){
			.starts = 20, .count = 10, .mismatched = 4, .orphan_starts = 10 }),
		"a,b: 40% of its times are wrong: they begin with one request and end with another "
		"one of the same thread (leave out --key none and --depth)");
	assert_string_equal(
		note_of(&(struct ocp_pair){ .starts = 1000, .count = 1000, .mismatched = 9 }), "");
}

TEST(arguments_that_are_no_keys)
{
	assert_string_equal(
		note_of(&(struct ocp_pair){
			.starts = 20, .not_keyed = 20, .orphan_stops = 20, .by_key = true }),
		"a,b: 100% of its starts are not timed: the argument that is the key is neither an "
		"int nor a string there (use --key argN, or --key none: by thread)");
}

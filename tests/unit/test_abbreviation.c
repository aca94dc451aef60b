// SPDX-License-Identifier: MIT
/* Abbreviated names: an exact name wins, otherwise the start of one name. */
#include <string.h>

#include "base/abbreviation.h"
#include "unit.h"

static const char *const names[] = { "enable-all", "enable", "enable-pair", "exe",
				     "p",	   "pid",    "print",	    NULL };

static struct abbreviation search(const char *word, size_t bytes)
{
	struct abbreviation found = abbreviation_of(word, bytes);

	for (size_t i = 0; names[i]; i++)
		abbreviation_offer(&found, "-", names[i]);
	return found;
}

static const char *meant(const char *word)
{
	struct abbreviation found = search(word, strlen(word));
	const char *name = abbreviation_name(&found);

	return name ? name : abbreviation_is_ambiguous(&found) ? "?" : "";
}

TEST(a_name_is_itself)
{
	for (size_t i = 0; names[i]; i++)
		assert_string_equal(meant(names[i]), names[i]);
}

TEST(the_start_of_one_name_stands_for_it)
{
	assert_string_equal(meant("ex"), "exe");
	assert_string_equal(meant("pi"), "pid");
	assert_string_equal(meant("enable-p"), "enable-pair");
}

TEST(other_words_stand_for_nothing)
{
	assert_string_equal(meant("e"), "?");
	assert_string_equal(meant("enable-"), "?");
	assert_string_equal(meant("exes"), "");
	assert_string_equal(meant("x"), "");
	assert_string_equal(meant(""), "");
}

TEST(only_the_first_bytes_of_the_word_count)
{
	const struct abbreviation found = search("pid=4242", 2);

	assert_string_equal(abbreviation_name(&found), "pid");
}

TEST(the_names_that_begin_with_the_word_are_listed)
{
	assert_string_equal(search("en", 2).list, "-enable-all, -enable, -enable-pair");
	assert_string_equal(search("x", 1).list, "");
}

TEST(a_list_that_is_too_long_says_so)
{
	struct abbreviation found = abbreviation_of("n", 1);
	char name[101];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 20; i++)
		abbreviation_offer(&found, "", name);
	assert_int_equal(found.n, 20);
	assert_true(strlen(found.list) < sizeof(found.list));
	assert_true(strlen(found.list) > sizeof(found.list) - sizeof(name) - 5);
	assert_string_equal(found.list + strlen(found.list) - 5, ", ...");
}

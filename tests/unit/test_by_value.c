// SPDX-License-Identifier: MIT
/* Groups by the value of an argument: their order, their texts and their differences. */
#include <stdlib.h>
#include <string.h>

#include "measure/by_value.h"
#include "unit.h"

static struct value_group group_of(uint32_t type, uint64_t number, const char *text, uint64_t hits)
{
	struct value_group group = { .probe = "p",
				     .value = { .type = type, .number = number },
				     .hits = hits };

	for (size_t i = 0; text && text[i] && i < MEASURE_BY_TEXT; i++)
		group.value.text[i] = text[i];
	return group;
}

static uint64_t bits_of(double real)
{
	uint64_t bits;

	memcpy(&bits, &real, sizeof(bits));
	return bits;
}

static void check_text(const struct value_group *group, const char *expected)
{
	char *text = value_group_text(group);

	assert_string_equal(text, expected);
	free(text);
}

TEST(texts_are_those_of_ocaml)
{
	const char *long_text =
		"0123456789012345678901234567890123456789012345678901234567890123456";
	struct value_group group = group_of(FILTER_TYPE_INT, (uint64_t)-3, NULL, 1);

	check_text(&group, "-3");
	group = group_of(FILTER_TYPE_INT, 1, NULL, 1);
	group.type = OCP_ARG_BOOL;
	check_text(&group, "true");
	group = group_of(FILTER_TYPE_INT, 'x', NULL, 1);
	group.type = OCP_ARG_CHAR;
	check_text(&group, "'x'");
	group = group_of(FILTER_TYPE_FLOAT, bits_of(2), NULL, 1);
	check_text(&group, "2.");
	group = group_of(FILTER_TYPE_STRING, 3, "a\"\n", 1);
	check_text(&group, "\"a\\\"\\n\"");
	assert_false(value_group_is_cut(&group));
	group = group_of(FILTER_TYPE_STRING, 67, long_text, 1);
	assert_true(value_group_is_cut(&group));
	check_text(&group, "\"0123456789012345678901234567890123456789012345678901234567890123\""
			   "... (67 bytes)");
	group = group_of(FILTER_TYPE_UNREADABLE, 0, NULL, 1);
	check_text(&group, "? (cannot be read)");
	group = group_of(FILTER_TYPE_OTHER, 0, NULL, 1);
	check_text(&group, "? (neither a number nor a string)");
}

TEST(groups_are_sorted_by_value)
{
	struct value_group groups[] = {
		group_of(FILTER_TYPE_INT, (uint64_t)-5, NULL, 1),
		group_of(FILTER_TYPE_INT, 0, NULL, 1),
		group_of(FILTER_TYPE_INT, 7, NULL, 1),
		group_of(FILTER_TYPE_FLOAT, bits_of(-1e9), NULL, 1),
		group_of(FILTER_TYPE_FLOAT, bits_of(-0.5), NULL, 1),
		group_of(FILTER_TYPE_FLOAT, bits_of(0.25), NULL, 1),
		group_of(FILTER_TYPE_STRING, 0, "", 1),
		group_of(FILTER_TYPE_STRING, 1, "a", 1),
		group_of(FILTER_TYPE_STRING, 2, "ab", 1),
		/* What differs behind the first 64 bytes is its length. */
		group_of(FILTER_TYPE_STRING, 3, "ab", 1),
		group_of(FILTER_TYPE_UNREADABLE, 0, NULL, 1),
		group_of(FILTER_TYPE_INT, 0, NULL, 1),
	};
	const size_t n = sizeof(groups) / sizeof(groups[0]);

	groups[n - 2].probe = "q";
	groups[n - 1].probe = NULL;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			const int order = value_group_compare(&groups[i], &groups[j]);

			assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
		}
	groups[0].is_others = true;
	assert_true(value_group_compare(&groups[0], &groups[2]) > 0);
}

/* A new group is whole, one without new hits is left out, and the others are a difference. */
TEST(differences_are_of_each_group)
{
	struct group_times old_times = { .sum_ns = 100, .min_ns = 100, .max_ns = 100 },
			   new_times = { .sum_ns = 130, .min_ns = 10, .max_ns = 100 };
	struct value_group old_list[] = { group_of(FILTER_TYPE_INT, 1, NULL, 10),
					  group_of(FILTER_TYPE_INT, 2, NULL, 20),
					  group_of(FILTER_TYPE_INT, 1, NULL, 1) };
	struct value_group new_list[] = { group_of(FILTER_TYPE_INT, 0, NULL, 3),
					  group_of(FILTER_TYPE_INT, 1, NULL, 10),
					  group_of(FILTER_TYPE_INT, 2, NULL, 25),
					  group_of(FILTER_TYPE_INT, 1, NULL, 4) };
	const struct value_groups earlier = { old_list, 3, &old_times, "id" },
				  later = { new_list, 4, &new_times, "id" };
	struct value_groups out;

	old_list[2].probe = new_list[3].probe = NULL;
	old_list[2].times = &old_times;
	new_list[3].times = &new_times;
	old_times.buckets[measure_bucket_of(100)] = 1;
	new_times.buckets[measure_bucket_of(100)] = 1;
	new_times.buckets[measure_bucket_of(10)] = 3;
	assert_int_equal(value_groups_subtract(NULL, &later, &earlier, &out), 0);
	assert_int_equal(out.n, 3);
	assert_string_equal(out.arg, "id");
	assert_int_equal(out.list[0].value.number, 0);
	assert_int_equal(out.list[0].hits, 3);
	assert_int_equal(out.list[1].value.number, 2);
	assert_int_equal(out.list[1].hits, 5);
	assert_int_equal(out.list[2].hits, 3);
	assert_int_equal(out.list[2].times->sum_ns, 30);
	assert_int_equal(out.list[2].times->min_ns, 10);
	assert_int_equal(out.list[2].times->max_ns, 10);
	value_groups_free(&out);
}

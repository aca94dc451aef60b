// SPDX-License-Identifier: MIT
/* The values of a label: their texts, which of them have rows, and that no row decreases. */
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "watch/label.h"

static struct ocp_ctx *ctx;
static struct label label;

static const struct watch_label_spec route = { "route", 3 };

static void renew_label(void)
{
	label_free(&label);
	assert_int_equal(label_set(ctx, &label, &route, "arg0"), 0);
}

static int set_up(void **state)
{
	(void)state;
	ctx = ocp_ctx_new();
	return ctx ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	label_free(&label);
	ocp_ctx_free(ctx);
	return 0;
}

ALL_TESTS(set_up, tear_down);

/* The group of a string of N bytes, of which BYTES has the first 64. */
static struct value_group string_of(const char *bytes, size_t n)
{
	struct value_group group = { .value = { .type = FILTER_TYPE_STRING, .number = n } };

	memcpy(group.value.text, bytes, n < MEASURE_BY_TEXT ? n : MEASURE_BY_TEXT);
	return group;
}

static struct value_group int_of(int64_t number, enum ocp_arg_type type)
{
	return (struct value_group){
		.type = type, .value = { .type = FILTER_TYPE_INT, .number = (uint64_t)number }
	};
}

static struct value_group float_of(double real)
{
	struct value_group group = { .value = { .type = FILTER_TYPE_FLOAT } };

	memcpy(&group.value.number, &real, sizeof(real));
	return group;
}

static void assert_text(struct value_group group, const char *expected)
{
	char text[LABEL_TEXT_BYTES];

	memset(text, 0x55, sizeof(text));
	assert_true(label_text(&group, text));
	assert_string_equal(text, expected);
}

#define SIXTY "123456789012345678901234567890123456789012345678901234567890"
#define BAD   "\xef\xbf\xbd"

TEST(texts_of_strings)
{
	char bytes[MEASURE_BY_TEXT], expected[LABEL_TEXT_BYTES] = "";

	assert_text(string_of("", 0), "");
	assert_text(string_of("/users/:id", 10), "/users/:id");
	assert_text(string_of("a\"\\\n\t", 5), "a\"\\\n\t");
	assert_text(string_of("a\0b", 3), "a" BAD "b");
	assert_text(string_of("caf\xc3\xa9", 5), "caf\xc3\xa9");
	assert_text(string_of("\xff\xfe", 2), BAD BAD);
	assert_text(string_of("x\xc3", 2), "x" BAD);
	/* Surrogates and overlong forms are no characters. */
	assert_text(string_of("\xed\xa0\x80", 3), BAD BAD BAD);
	assert_text(string_of("\xc0\x80", 2), BAD BAD);
	assert_text(string_of(SIXTY "1234", 64), SIXTY "1234");
	assert_text(string_of(SIXTY "1234", 65), SIXTY "1234...");
	/* Characters that are cut: 2 of 3 bytes, 1 of 2, 3 of 4. */
	assert_text(string_of(SIXTY "12\xe2\x82", 65), SIXTY "12...");
	assert_text(string_of(SIXTY "123\xc3", 65), SIXTY "123...");
	assert_text(string_of(SIXTY "1\xf0\x9f\x98", 70), SIXTY "1...");
	assert_text(string_of(SIXTY "12\xe2\x82", 64), SIXTY "12" BAD BAD);
	assert_text(string_of(SIXTY "123\x80", 65), SIXTY "123" BAD "...");
	/* The longest one. */
	memset(bytes, 0x80, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		strcat(expected, BAD);
	strcat(expected, "...");
	assert_int_equal(strlen(expected), LABEL_TEXT_BYTES - 1);
	assert_text(string_of(bytes, SIZE_MAX), expected);
}

TEST(texts_of_other_values)
{
	char text[LABEL_TEXT_BYTES];

	assert_text(int_of(-42, OCP_ARG_ANY), "-42");
	assert_text(int_of(INT64_MIN, OCP_ARG_INT), "-9223372036854775808");
	assert_text(int_of(1, OCP_ARG_BOOL), "true");
	assert_text(int_of(0, OCP_ARG_BOOL), "false");
	assert_text(int_of(2, OCP_ARG_BOOL), "2");
	assert_text(int_of('x', OCP_ARG_CHAR), "x");
	assert_text(int_of(0xe9, OCP_ARG_CHAR), BAD);
	assert_text(int_of(0, OCP_ARG_CHAR), BAD);
	assert_text(int_of(256, OCP_ARG_CHAR), "256");
	assert_text(float_of(0.1), "0.1");
	assert_text(float_of(-1.0 / 0.0), "-inf");
	assert_false(label_text(&(struct value_group){ .is_others = true }, text));
	assert_false(label_text(&(struct value_group){ .value.type = FILTER_TYPE_OTHER }, text));
	assert_false(
		label_text(&(struct value_group){ .value.type = FILTER_TYPE_UNREADABLE }, text));
}

/* Let the label learn the N values LIST, with the hits that each has. */
static void learn(struct value_group *list, size_t n)
{
	struct label_candidates candidates = { 0 };

	assert_int_equal(label_gather(ctx, &label, &(struct value_groups){ .list = list, .n = n },
				      &candidates),
			 0);
	assert_int_equal(label_admit(ctx, &label, &candidates), 0);
	assert_int_equal(label.view.n_values, label.n_values);
}

TEST(rows)
{
	struct value_group first[] = { string_of("a", 1), string_of("b", 1), int_of(5, OCP_ARG_ANY),
				       string_of("5", 1), string_of("other", 5) };
	struct value_group later[] = { string_of("c", 1), string_of("d", 1), string_of("a", 1) };
	const uint64_t hits[] = { 10, 3, 6, 5, 1000 };

	renew_label();
	for (size_t i = 0; i < 5; i++)
		first[i].hits = hits[i];
	later[0].hits = 7;
	later[1].hits = 8;
	learn(first, 2);
	assert_int_equal(label.n_values, 3);
	assert_string_equal(label.values[WATCH_OTHER], "other");
	assert_string_equal(label.values[1], "a");
	assert_string_equal(label.values[2], "b");
	/* One row is left: "5" has 11 hits, as a string and as an int, and d has 8. */
	first[3].hits = 1;
	first[2].hits = 6;
	later[1].hits = 8;
	learn(later, 3);
	assert_string_equal(label.values[3], "d");
	learn(first, 5);
	assert_int_equal(label.n_values, 4);
	assert_int_equal(label_value_of(&label, &first[0]), 1);
	assert_int_equal(label_value_of(&label, &first[2]), WATCH_OTHER);
	assert_int_equal(label_value_of(&label, &first[4]), WATCH_OTHER);
	assert_int_equal(label_value_of(&label, &later[0]), WATCH_OTHER);
	assert_int_equal(label_value_of(&label, &later[1]), 3);
	assert_int_equal(label_value_of(&label, &(struct value_group){ .is_others = true }),
			 WATCH_OTHER);
}

TEST(values_with_equal_texts_share_a_row)
{
	struct value_group list[] = { int_of(5, OCP_ARG_ANY), string_of("6", 1), string_of("5", 1),
				      int_of(7, OCP_ARG_ANY), int_of(8, OCP_ARG_ANY) };
	const uint64_t hits[] = { 2, 3, 2, 1, 1 };

	renew_label();
	for (size_t i = 0; i < 5; i++)
		list[i].hits = hits[i];
	learn(list, 5);
	assert_int_equal(label.n_values, 4);
	assert_string_equal(label.values[1], "5");
	assert_string_equal(label.values[2], "6");
	assert_string_equal(label.values[3], "7");
	assert_int_equal(label_value_of(&label, &list[0]), 1);
	assert_int_equal(label_value_of(&label, &list[2]), 1);
}

TEST(what_a_label_is)
{
	const struct label none = { 0 };

	renew_label();
	assert_true(label_is(&label, &route, "arg0"));
	assert_false(label_is(&label, &route, "arg1"));
	assert_false(label_is(&label, &route, NULL));
	assert_false(label_is(&label, &(struct watch_label_spec){ "path", 3 }, "arg0"));
	assert_false(label_is(&label, &(struct watch_label_spec){ "route", 4 }, "arg0"));
	assert_false(label_is(&none, &route, "arg0"));
	assert_true(label_is(&none, &(struct watch_label_spec){ 0 }, NULL));
}

/* What ended sources had stays; rows are sorted by value, in whatever order they come. */
TEST(sums)
{
	static struct group_times times = { .sum_ns = 100, .buckets = { [3] = 2 } };
	const struct value_group group = { .hits = 2, .times = &times };
	struct labelled_times durations = { 0 };
	struct labelled_hits hits = { 0 };

	for (size_t value = 20; value-- > 0;) {
		assert_int_equal(labelled_hits_add(ctx, &hits, value, value, value == 7), 0);
		assert_int_equal(labelled_times_add(ctx, &durations, value, &group, value == 7), 0);
	}
	assert_int_equal(labelled_times_add_row(ctx, &durations, 7), 0);
	assert_int_equal(labelled_times_add_row(ctx, &durations, 20), 0);
	labelled_hits_add(ctx, &hits, 7, 5, false);
	assert_int_equal(hits.n, 20);
	assert_int_equal(durations.n, 21);
	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(hits.list[i].value, i);
		assert_int_equal(hits.list[i].hits, i == 7 ? 12 : i);
		assert_int_equal(durations.list[i].value, i);
		assert_int_equal(durations.list[i].count, 2);
		assert_int_equal(durations.list[i].buckets[3], 2);
	}
	labelled_hits_reset(&hits);
	labelled_times_reset(&durations);
	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(hits.list[i].hits, i == 7 ? 7 : 0);
		assert_int_equal(durations.list[i].count, i == 7 ? 2 : 0);
		assert_int_equal(durations.list[i].sum_ns, i == 7 ? 100 : 0);
		assert_int_equal(durations.list[i].buckets[3], i == 7 ? 2 : 0);
	}
	labelled_hits_free(&hits);
	labelled_times_free(&durations);
}

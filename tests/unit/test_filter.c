// SPDX-License-Identifier: MIT
/*
 * Filters from text to postfix. That the form means what the text says is shown twice: here against
 * expected forms, in test_args_bpf.c by what the kernel makes of it.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "measure/args/filter.h"
#include "unit.h"

/* FILTER in a notation of its own: 0>100 1=GET & */
static void spell(const struct filter *filter, char *out, size_t n)
{
	static const char *const comparisons[] = { "=", "!=", "<", "<=", ">", ">=", "^=" };

	*out = '\0';
	for (__u32 i = 0; i < filter->n_ops; i++) {
		const struct filter_op *op = &filter->ops[i];
		const struct filter_string *string = &filter->strings[op->string];
		char one[120];

		switch (op->kind) {
		case FILTER_NUMBER:
			snprintf(one, sizeof(one), "%u%s%lld", op->arg,
				 comparisons[op->int_comparison], op->number);
			break;
		case FILTER_STRING:
			snprintf(one, sizeof(one), "%u%s'%.*s'", op->arg,
				 comparisons[op->comparison], (int)string->n_bytes, string->bytes);
			break;
		default:
			snprintf(one, sizeof(one), "%c",
				 op->kind == FILTER_AND	 ? '&'
				 : op->kind == FILTER_OR ? '|'
							 : '!');
		}
		snprintf(out + strlen(out), n - strlen(out), "%s%s", i ? " " : "", one);
	}
}

TEST(expressions_become_postfix)
{
	static const struct {
		const char *text, *postfix;
		__u32 args_used;
	} cases[] = {
		{ "arg0 > 100", "0>100", 1 },
		{ "arg0>100&&arg1==\"GET\"", "0>100 1='GET' &", 3 },
		{ "arg0 = 1 || arg1 = 2 && arg2 = 3", "0=1 1=2 2=3 & |", 7 },
		{ "arg0 = 1 && arg1 = 2 || arg2 = 3", "0=1 1=2 & 2=3 |", 7 },
		{ "arg0 = 1 && (arg1 = 2 || arg2 = 3)", "0=1 1=2 2=3 | &", 7 },
		{ "arg0 = 1 && arg0 = 2 && arg0 = 3", "0=1 0=2 & 0=3 &", 1 },
		{ "!arg0 = 1 && arg1 = 2", "0=1 ! 1=2 &", 3 },
		{ "!(arg0 = 1 && arg1 = 2)", "0=1 1=2 & !", 3 },
		{ "!!!arg0 != 1", "0!=1 ! ! !", 1 },
		{ " ( ( arg15 <= -0x10 ) ) ", "15<=-16", 1 << 15 },
		{ "arg3 >= 0XfF", "3>=255", 8 },
		{ "arg3 < 007", "3<7", 8 },
		{ "arg0 == 9223372036854775807", "0=9223372036854775807", 1 },
		{ "arg0 == -9223372036854775808", "0=-9223372036854775808", 1 },
		{ "arg00 == 0", "0=0", 1 },
		/* What floats come to for ints. */
		{ "arg0 < 1.5 || arg1 >= -0.25", "0<=1 1>-1 |", 3 },
		{ "arg0 == 1e3 && arg1 != 2.", "0=1000 1!=2 &", 3 },
		{ "arg0 > 0x1.8p1&&arg1<1e+2", "0>3 1<100 &", 3 },
		{ "arg2 ^= \"/api\"", "2^='/api'", 4 },
		{ "arg2 != \"\"", "2!=''", 4 },
		{ "\targ2\n!=\"a||b\"", "2!='a||b'", 4 },
		{ "arg0 == \"\\n\\t\\\\\\\"\\065\\x42\\x4a\"", "0='\n\t\\\"ABJ'", 1 },
	};
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct filter filter;
	char spelt[256];
	struct asked_names asked = { .n = 0 };
	__u32 used;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err = filter_parse(ctx, cases[i].text, &asked, &filter, &used);

		if (err)
			print_message("%s\n", ocp_error(ctx));
		assert_int_equal(err, 0);
		spell(&filter, spelt, sizeof(spelt));
		assert_string_equal(spelt, cases[i].postfix);
		assert_int_equal(used, cases[i].args_used);
	}
	ocp_ctx_free(ctx);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool compare(long double a, unsigned int comparison, long double b)
{
	switch (comparison) {
	case FILTER_EQ:
		return a == b;
	case FILTER_NE:
		return a != b;
	case FILTER_LT:
		return a < b;
	case FILTER_LE:
		return a <= b;
	case FILTER_GT:
		return a > b;
	default:
		return a >= b;
	}
}

/* As bpf/filter.bpf.h does it, with nothing but integers. */
static bool int_matches(const struct filter_op *op, __s64 number)
{
	return compare((long double)number, op->int_comparison, (long double)op->number);
}

static bool real_matches(const struct filter_op *op, double real)
{
	__u64 bits;

	memcpy(&bits, &real, sizeof(bits));
	if (filter_is_nan(bits))
		return op->comparison == FILTER_NE;
	return compare((long double)filter_order(bits), op->comparison, (long double)op->ordered);
}

/* A long double (64 bits of mantissa) has every int64 and every double: it is the judge. */
static void check_number(struct ocp_ctx *ctx, const char *literal, double real, long double as_int)
{
	static const char *const tokens[] = { "==", "!=", "<", "<=", ">", ">=" };
	static const __s64 ints[] = { INT64_MIN,
				      INT64_MIN + 1,
				      -(1LL << 62),
				      -(1LL << 53) - 1,
				      -1001,
				      -50,
				      -2,
				      -1,
				      0,
				      1,
				      2,
				      49,
				      50,
				      51,
				      1000,
				      1LL << 53,
				      (1LL << 53) + 1,
				      (1LL << 62) - 1,
				      1LL << 62,
				      INT64_MAX - 1,
				      INT64_MAX };
	static const double reals[] = { -INFINITY, -1e300,     -0x1p63,	  -50.5, -50,	    -1,
					-0.25,	   -0x1p-1074, -0.0,	  0.0,	 0x1p-1074, 0.25,
					1,	   1.5,	       49.999999, 50,	 50.000001, 1000,
					0x1p53,	   0x1p62,     0x1p63,	  1e300, INFINITY,  NAN };

	for (unsigned int c = 0; c < 6; c++) {
		struct filter filter;
		char text[80];
		struct asked_names asked = { .n = 0 };
		__u32 used;

		snprintf(text, sizeof(text), "arg0 %s %s", tokens[c], literal);
		assert_int_equal(filter_parse(ctx, text, &asked, &filter, &used), 0);
		for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
			if (int_matches(&filter.ops[0], ints[i]) !=
			    compare((long double)ints[i], c, as_int))
				fail_msg("%s is wrong of %lld", text, ints[i]);
		for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
			if (real_matches(&filter.ops[0], reals[i]) !=
			    compare((long double)reals[i], c, (long double)real))
				fail_msg("%s is wrong of %a", text, reals[i]);
	}
}

TEST(numbers_compare_exactly)
{
	static const struct {
		const char *literal;
		double real;
	} reals[] = {
		{ "1.5", 1.5 },
		{ "-0.25", -0.25 },
		{ "0.25", 0.25 },
		{ "1e3", 1e3 },
		{ "50.", 50 },
		{ "50.5", 50.5 },
		{ "-0.0", -0.0 },
		{ "0.0", 0 },
		{ "1e-400", 0 },
		{ "4.9406564584124654e-324", 0x1p-1074 },
		{ "-4.9406564584124654e-324", -0x1p-1074 },
		{ "0x1p53", 0x1p53 },
		{ "4611686018427387904.0", 0x1p62 },
		{ "9223372036854775807.0", 0x1p63 },
		{ "-9223372036854775808.0", -0x1p63 },
		{ "-0x1.0000000000001p63", -0x1.0000000000001p63 },
		{ "1e300", 1e300 },
		{ "-1e300", -1e300 },
		{ "inf", INFINITY },
		{ "infinity", INFINITY },
		{ "-inf", -INFINITY },
		{ "-infinity", -INFINITY },
	};
	static const __s64 ints[] = { INT64_MIN, -50, -1, 0, 1, 50, (1LL << 53) + 1, INT64_MAX };
	struct ocp_ctx *ctx = ocp_ctx_new();
	char literal[40];

	for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
		check_number(ctx, reals[i].literal, reals[i].real, (long double)reals[i].real);
	/* With floats as OCaml's float_of_int has them. */
	for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++) {
		snprintf(literal, sizeof(literal), "%lld", ints[i]);
		check_number(ctx, literal, (double)ints[i], (long double)ints[i]);
	}
	ocp_ctx_free(ctx);
}

TEST(strings_may_hold_any_byte)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct filter filter;
	struct asked_names asked = { .n = 0 };
	__u32 used;

	assert_int_equal(filter_parse(ctx, "arg0 == \"a\\000\\255\\xc3\"", &asked, &filter, &used),
			 0);
	assert_int_equal(filter.strings[0].n_bytes, 4);
	assert_memory_equal(filter.strings[0].bytes, "a\0\xff\xc3\0\0\0", 8);
	ocp_ctx_free(ctx);
}

TEST(errors_say_where_and_what)
{
	static const struct {
		const char *text;
		unsigned int column;
		const char *why;
	} cases[] = {
		{ "", 1, "an argument (arg0, arg1, ..., or its name) is expected" },
		{ "  ", 3, "an argument (arg0, arg1, ..., or its name) is expected" },
		{ "arg", 4, "a comparison (== != < <= > >= ^=) is expected" },
		{ "3size > 3", 1, "an argument (arg0, arg1, ..., or its name) is expected" },
		{ "'size > 3", 1, "an argument (arg0, arg1, ..., or its name) is expected" },
		{ "M.size > 3", 2, "a comparison (== != < <= > >= ^=) is expected" },
		{ "100 < arg0", 1, "an argument (arg0, arg1, ..., or its name) is expected" },
		{ "arg0 > 1 && ", 13, "an argument (arg0, arg1, ..., or its name) is expected" },
		{ "arg0 > 1 && && arg1 > 1", 13,
		  "an argument (arg0, arg1, ..., or its name) is expected" },
		{ "arg16 == 1", 1, "the last argument that can be read is arg15" },
		{ "arg99999999999999999999 == 1", 1,
		  "the last argument that can be read is arg15" },
		{ "arg0", 5, "a comparison (== != < <= > >= ^=) is expected" },
		{ "arg0 ~ 3", 6, "a comparison (== != < <= > >= ^=) is expected" },
		{ "arg0 >", 7, "a number or a string in double quotes is expected" },
		{ "arg0 > x", 8, "a number or a string in double quotes is expected" },
		{ "arg0 == arg1", 9, "a number or a string in double quotes is expected" },
		{ "arg0 == 'x", 9, "a character in quotes is expected: 'x'" },
		{ "arg0 == 'xy'", 9, "a character in quotes is expected: 'x'" },
		{ "arg0 == ''", 9, "a character in quotes is expected: 'x'" },
		{ "arg0 == '", 9, "a character in quotes is expected: 'x'" },
		{ "arg0 == '\\q'", 11, "\\ goes before one of n t r b \" \\ or ddd or xhh" },
		{ "ok < true", 4, "true and false are compared with == or !=" },
		{ "ok == truely", 7, "a number or a string in double quotes is expected" },
		{ "arg0 == -", 9, "digits are expected" },
		{ "arg0 == 0x", 9, "digits are expected" },
		{ "arg0 == 0xg", 9, "digits are expected" },
		{ "arg0 == 12ab", 11, "unexpected character after the number" },
		{ "arg0 == 9223372036854775808", 9, "the number does not fit into 64 bits" },
		{ "arg0 == 1.5x", 12, "unexpected character after the number" },
		{ "arg0 == 1.5.2", 12, "unexpected character after the number" },
		{ "arg0 == 1e", 10, "unexpected character after the number" },
		{ "arg0 == 0x1p", 12, "unexpected character after the number" },
		{ "arg0 == 1e999", 9, "the number is too large for a float" },
		{ "arg0 == .5", 9, "a number or a string in double quotes is expected" },
		{ "arg0 == infinite", 9, "a number or a string in double quotes is expected" },
		{ "arg0 == -in", 9, "digits are expected" },
		{ "arg7 == nan", 9, "no number is equal to nan; !(arg7 <= inf) is true of it" },
		{ "arg0 == \"abc", 9, "the string has no closing quote" },
		{ "arg0 == \"abc\\", 14, "\\ goes before one of n t r b \" \\ or ddd or xhh" },
		{ "arg0 == \"a\\q\"", 12, "\\ goes before one of n t r b \" \\ or ddd or xhh" },
		{ "arg0 == \"\\256\"", 11, "the largest byte is \\255" },
		{ "arg0 < \"abc\"", 6, "strings are compared with ==, != or ^=" },
		{ "arg0 ^= 3", 9, "^= (starts with) is followed by a string in double quotes" },
		{ "(arg0 == 1", 11, "&&, || or ) is expected" },
		{ "(arg0 == 1]", 11, "&&, || or ) is expected" },
		{ "arg0 == 1)", 10, "&&, || or the end is expected" },
		{ "arg0 == 1 & arg1 == 2", 11, "&&, || or the end is expected" },
		{ "arg0 == 1 arg1 == 2", 11, "&&, || or the end is expected" },
		{ "arg0 == 1 and arg1 == 2", 11, "&&, || or the end is expected" },
	};
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct filter filter;
	char expected[256];
	struct asked_names asked = { .n = 0 };
	__u32 used;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(expected, sizeof(expected), "filter %s: column %u: %s", cases[i].text,
			 cases[i].column, cases[i].why);
		assert_int_equal(filter_parse(ctx, cases[i].text, &asked, &filter, &used), -EINVAL);
		assert_string_equal(ocp_error(ctx), expected);
	}
	ocp_ctx_free(ctx);
}

/* N times PART, joined by " || ". */
static void repeat(char *out, size_t out_bytes, const char *part, int n)
{
	*out = '\0';
	for (int i = 0; i < n; i++)
		snprintf(out + strlen(out), out_bytes - strlen(out), "%s%s", i ? " || " : "", part);
}

static void assert_limit(struct ocp_ctx *ctx, const char *text, const char *why)
{
	struct filter filter;
	struct asked_names asked = { .n = 0 };
	__u32 used;

	assert_int_equal(filter_parse(ctx, text, &asked, &filter, &used), -E2BIG);
	assert_non_null(strstr(ocp_error(ctx), why));
}

TEST(limits_are_named)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	char text[1200], part[100];
	struct filter filter;
	struct asked_names asked = { .n = 0 };
	__u32 used;

	repeat(text, sizeof(text), "arg0 == \"x\"", 16);
	assert_int_equal(filter_parse(ctx, text, &asked, &filter, &used), 0);
	assert_int_equal(filter.n_ops, 31);
	assert_int_equal(filter.n_strings, 16);
	repeat(text, sizeof(text), "arg0 == 1", 17);
	assert_limit(ctx, text, "too many comparisons and operators: the limit is 32");
	snprintf(part, sizeof(part), "arg0 == \"%064d\"", 0);
	assert_int_equal(filter_parse(ctx, part, &asked, &filter, &used), 0);
	assert_int_equal(filter.strings[0].n_bytes, 64);
	snprintf(part, sizeof(part), "arg0 == \"%065d\"", 0);
	assert_limit(ctx, part, "column 9: too many bytes in a string: the limit is 64");
	/* Strings that are no operand of anything in time. */
	*text = '\0';
	for (int i = 0; i < 17; i++)
		strcat(text, "arg0 == \"x\" || (");
	assert_limit(ctx, text, "too many strings: the limit is 16");
	memset(text, '(', 1000);
	text[1000] = '\0';
	assert_limit(ctx, text, "nested too deeply: the limit is 64");
	memset(text, '!', 1000);
	assert_limit(ctx, text, "nested too deeply: the limit is 64");
	ocp_ctx_free(ctx);
}

TEST(names_have_numbers_behind_positions)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct asked_names asked = { .n = 0 };
	char text[1000] = "", spelt[256];
	struct filter filter;
	__u32 used;

	assert_int_equal(filter_parse(ctx, "price > 50.0 && customer == \"x\" && arg1 = 2", &asked,
				      &filter, &used),
			 0);
	spell(&filter, spelt, sizeof(spelt));
	assert_string_equal(spelt, "16>50 17='x' & 1=2 &");
	assert_int_equal(used, 1u << 16 | 1u << 17 | 1u << 1);
	assert_int_equal(asked.n, 2);
	assert_string_equal(asked.names[0], "price");
	assert_string_equal(asked.names[1], "customer");
	/* A key and a histogram that have names of their own, or the same. */
	assert_int_equal(filter_parse_arg(ctx, "customer", &asked), 17);
	assert_int_equal(filter_parse_arg(ctx, "x'", &asked), 18);
	assert_int_equal(asked.n, 3);
	/* Bools and characters are numbers; quotes belong to names. */
	assert_int_equal(filter_parse(ctx,
				      "x' == true || !(_ok != false) || c == 'c' || c == '\\''"
				      " || c < '\\n' || c >= '\\255'",
				      &asked, &filter, &used),
			 0);
	spell(&filter, spelt, sizeof(spelt));
	assert_string_equal(spelt, "18=1 19!=0 ! | 20=99 | 20=39 | 20<10 | 20>=255 |");
	for (int i = 0; i < ARGS_NAMED + 1; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s v%d = 1",
			 i ? " ||" : "", i);
	asked.n = 0;
	assert_int_equal(filter_parse(ctx, text, &asked, &filter, &used), -E2BIG);
	assert_non_null(strstr(ocp_error(ctx), "too many names of arguments: the limit is 16"));
	assert_int_equal(filter_parse_arg(ctx, "v0", &asked), 16);
	assert_int_equal(filter_parse_arg(ctx, "another", &asked), -E2BIG);
	asked.n = 0;
	memset(text, 'a', 64);
	text[64] = '\0';
	assert_int_equal(filter_parse_arg(ctx, text, &asked), -EINVAL);
	text[63] = '\0';
	assert_int_equal(filter_parse_arg(ctx, text, &asked), 16);
	ocp_ctx_free(ctx);
}

TEST(an_argument_is_named)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct asked_names asked = { .n = 0 };

	assert_int_equal(filter_parse_arg(ctx, "arg0", &asked), 0);
	assert_int_equal(filter_parse_arg(ctx, "arg15", &asked), 15);
	assert_int_equal(filter_parse_arg(ctx, "arg16", &asked), -EINVAL);
	assert_string_equal(ocp_error(ctx),
			    "argument arg16: the last argument that can be read is arg15");
	assert_int_equal(filter_parse_arg(ctx, "0", &asked), -EINVAL);
	assert_string_equal(ocp_error(ctx), "argument 0: arg0, arg1, ..., or its name is expected");
	assert_int_equal(filter_parse_arg(ctx, "arg0 ", &asked), -EINVAL);
	assert_int_equal(filter_parse_arg(ctx, "", &asked), -EINVAL);
	ocp_ctx_free(ctx);
}

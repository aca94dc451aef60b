// SPDX-License-Identifier: MIT
/*
 * Str's regular expressions. What the table says is what OCaml's Str does: tests/e2e/str_regexp.sh
 * asks it, by means of
 *
 *	--table    print the table, PATTERN <tab> TEXT <tab> yes | no | error
 *	--match    read PATTERN <tab> TEXT and print the same with what we make of it
 */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/str_regexp.h"
#include "unit.h"

enum verdict { NO, YES, ERROR };

static const char *const verdict_names[] = { "no", "yes", "error" };

static const struct {
	const char *pattern, *text;
	enum verdict verdict;
} table[] = {
	/* The start must match, the end need not. */
	{ "", "", YES },
	{ "", "alpha", YES },
	{ "al", "alpha", YES },
	{ "lp", "alpha", NO },
	{ "alpha", "alp", NO },
	{ "alpha$", "alpha", YES },
	{ "alpha$", "alphabet", NO },
	{ "^alpha", "alpha", YES },
	{ "a^l", "alpha", NO },
	{ "a$l", "alpha", NO },
	/* Alternatives and groups take a backslash; the bare characters are themselves. */
	{ "a\\|b", "beta", YES },
	{ "a\\|b", "gamma", NO },
	{ "gx\\|ga", "gamma", YES },
	{ "\\(alpha\\|beta\\)_x", "beta_x", YES },
	{ "\\(alpha\\|beta\\)_x", "alpha", NO },
	{ "\\(\\(a\\)b\\)c", "abc", YES },
	{ "a|b", "a", NO },
	{ "a|b", "a|b", YES },
	{ "(a)", "a", NO },
	{ "(a)", "(a)", YES },
	{ "a{2}", "aa", NO },
	{ "a{2}", "a{2}", YES },
	{ "a\\{2\\}", "a{2}", YES },
	{ "a\\{2\\}", "aa", NO },
	/* Nothing between the operators matches nothing. */
	{ "\\|a", "b", YES },
	{ "a\\|", "b", YES },
	{ "a\\|\\|b", "c", YES },
	{ "\\(\\)a", "a", YES },
	{ "\\(\\|a\\)b", "ab", YES },
	/* Repetition. */
	{ "a*b", "b", YES },
	{ "a*b", "aaab", YES },
	{ "a+b", "b", NO },
	{ "a+b", "aab", YES },
	{ "a?b$", "ab", YES },
	{ "a?b$", "aab", NO },
	{ "\\(ab\\)*c", "ababc", YES },
	{ "\\(ab\\)+c", "c", NO },
	{ ".*_done", "request_done", YES },
	{ "a+*b", "b", YES },
	{ "a?+b", "aab", YES },
	{ "a??b", "aab", NO },
	{ "a++b", "b", NO },
	/* Nothing to repeat: the operators are themselves. */
	{ "*a", "*a", YES },
	{ "*a", "a", NO },
	{ "**", "", YES },
	{ "+", "+", YES },
	{ "?x", "?x", YES },
	{ "\\(*a\\)", "*a", YES },
	{ "a\\|*", "*", YES },
	{ "a\\|+b", "+b", YES },
	/* Assertions that are repeated. */
	{ "^*a", "a", YES },
	{ "b^*a", "ba", YES },
	{ "b^+a", "ba", NO },
	{ "a$?b", "ab", YES },
	{ "a\\b*b", "ab", YES },
	{ "^^a", "a", YES },
	/* Sets know neither escapes nor classes. */
	{ "[abc]", "b", YES },
	{ "[a-c]x", "bx", YES },
	{ "[^a-c]", "b", NO },
	{ "[^a-c]", "d", YES },
	{ "[]a]", "]", YES },
	{ "[^]a]", "]", NO },
	{ "[^]a]", "b", YES },
	{ "[a-]", "-", YES },
	{ "[-a]", "-", YES },
	{ "[a^]", "^", YES },
	{ "[\\n]", "n", YES },
	{ "[\\n]", "\\", YES },
	{ "[\\]]", "\\]", YES },
	{ "[[:alpha:]]", "a]", YES },
	{ "[[:alpha:]]", "b]", NO },
	{ "[[:alpha:]]", ":]", YES },
	{ "[[.a.]", ".", YES },
	{ "[c-a]", "b", NO },
	{ "x[c-a]*y", "xy", YES },
	{ "[^c-a]", "b", YES },
	{ "[+--]", ",", YES },
	{ "[a-c-e]", "d", NO },
	{ "[a-c-e]", "-", YES },
	{ "[-^]", "^", YES },
	{ "[^^]", "^", NO },
	{ "[[^]", "[", YES },
	{ "[]^-[]x", "-x", NO },
	{ "[]^[-]x", "-x", YES },
	/* `.` and quoting. */
	{ "a.c", "abc", YES },
	{ "a.c", "ac", NO },
	{ "a\\.c", "abc", NO },
	{ "a\\.c", "a.c", YES },
	{ "\\*", "*", YES },
	{ "\\[a\\]", "[a]", YES },
	{ "\\^", "^", YES },
	{ "\\$", "$", YES },
	{ "\\\\", "\\", YES },
	{ "\\n", "n", YES },
	{ "\\w", "w", YES },
	{ "\\w", "a", NO },
	{ "\\0", "0", YES },
	{ "a\\", "a\\", YES },
	{ "}", "}", YES },
	{ "]", "]", YES },
	/* Words, and what a group has matched. */
	{ "a\\b", "a", YES },
	{ "a\\b", "ab", NO },
	{ "\\balpha\\b", "alpha", YES },
	{ "a\\b-", "a-", YES },
	{ "\\(a\\|b\\)\\1", "aa", YES },
	{ "\\(a\\|b\\)\\1", "ab", NO },
	{ "\\(a\\)\\(b\\)\\2\\1", "abba", YES },
	{ "\\(a*\\)b\\1$", "aabaa", YES },
	{ "\\(a*\\)b\\1$", "aaba", NO },
	/* Bytes above ASCII are bytes. */
	{ "\xc3\xa9.", "\xc3\xa9x", YES },
	{ "[\x80-\xff]", "\xe9", YES },
	{ "[^a]", "\xe9", YES },
	/* Mistakes. */
	{ "\\(a", "a", ERROR },
	{ "a\\)", "a", ERROR },
	{ "\\)", "a", ERROR },
	{ "\\(a\\(b\\)", "ab", ERROR },
	{ "[a", "a", ERROR },
	{ "[", "a", ERROR },
	{ "[]", "]", ERROR },
	{ "[^]", "]", ERROR },
};

static enum verdict verdict_of(struct ocp_ctx *ctx, const char *pattern, const char *text)
{
	struct str_regexp *re;
	enum verdict verdict;

	if (str_regexp_new(ctx, pattern, &re) != 0)
		return ERROR;
	verdict = str_regexp_match(re, text) ? YES : NO;
	str_regexp_free(re);
	return verdict;
}

static int new_ctx(void **state)
{
	*state = ocp_ctx_new();
	return *state ? 0 : -1;
}

static int free_ctx(void **state)
{
	ocp_ctx_free(*state);
	return 0;
}

EACH_TEST(new_ctx, free_ctx);

TEST(table_holds)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		enum verdict verdict = verdict_of(*state, table[i].pattern, table[i].text);

		if (verdict != table[i].verdict)
			fail_msg("'%s' on '%s': %s", table[i].pattern, table[i].text,
				 verdict_names[verdict]);
	}
}

TEST(mistakes_have_sentences)
{
	struct ocp_ctx *ctx = *state;
	struct str_regexp *re = (struct str_regexp *)"";
	char nested[4096 + 1], longest[4097 + 1];

	assert_int_equal(str_regexp_new(ctx, "a\\(b", &re), -EINVAL);
	assert_null(re);
	assert_string_equal(ocp_error(ctx), "regular expression 'a\\(b': \\( without its \\)");
	assert_int_equal(str_regexp_new(ctx, "b\\)", &re), -EINVAL);
	assert_string_equal(ocp_error(ctx), "regular expression 'b\\)': \\) without its \\(");
	assert_int_equal(str_regexp_new(ctx, "[x", &re), -EINVAL);
	assert_string_equal(ocp_error(ctx), "regular expression '[x': [ without its ]");
	assert_int_equal(str_regexp_new(ctx, "\\(a\\1\\)", &re), -EINVAL);
	assert_string_equal(ocp_error(ctx), "regular expression '\\(a\\1\\)': "
					    "refers to a group that does not end before");
	assert_int_equal(str_regexp_new(ctx, "\\(a\\)\\|b\\1", &re), -EINVAL);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(str_regexp_new(ctx, longest, &re), -EINVAL);
	longest[sizeof(longest) - 2] = '\0';
	assert_int_equal(str_regexp_new(ctx, longest, &re), 0);
	str_regexp_free(re);
	for (size_t i = 0; i < 2048; i++)
		memcpy(nested + 2 * i, i < 1024 ? "\\(" : "\\)", 2);
	nested[4096] = '\0';
	assert_int_equal(str_regexp_new(ctx, nested, &re), 0);
	assert_true(str_regexp_match(re, "a"));
	str_regexp_free(re);
	str_regexp_free(NULL);
}

/* What the caller has set neither matters nor is changed. */
TEST(locale_of_the_caller_does_not_matter)
{
	locale_t utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", NULL), before;

	assert_non_null(utf8);
	before = uselocale(utf8);
	table_holds(state);
	assert_ptr_equal(uselocale(before), utf8);
	freelocale(utf8);
}

static int match_lines(struct ocp_ctx *ctx)
{
	char line[1024], *text;

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		text = strchr(line, '\t');
		if (!text)
			return 1;
		*text++ = '\0';
		printf("%s\t%s\t%s\n", line, text, verdict_names[verdict_of(ctx, line, text)]);
	}
	return 0;
}

static int as_asked_by_the_script(const char *mode)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	int code = 0;

	if (strcmp(mode, "--match") == 0)
		code = match_lines(ctx);
	else
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
			printf("%s\t%s\t%s\n", table[i].pattern, table[i].text,
			       verdict_names[table[i].verdict]);
	ocp_ctx_free(ctx);
	return code;
}

PROGRAM(str_regexp)
{
	return argc == 2 ? as_asked_by_the_script(argv[1]) : 2;
}

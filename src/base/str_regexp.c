// SPDX-License-Identifier: MIT
/*
 * Str's syntax is translated into POSIX extended regular expressions, which the C library matches.
 * Both have the same operators. They differ in the notation and in special cases:
 *
 *	a*, *a		in Str * + ? are literal where there is nothing to repeat; POSIX leaves
 *			that undefined
 *	a+*, ^*		Str repeats repetitions and assertions. Several operators in a row become
 *			one; an assertion that may be absent is left out
 *	[\n[:x:]]	a set in Str has no escapes, classes or equivalences, and [b-a] is empty.
 *			Each set is rewritten from the bytes that it contains, even a complement:
 *			with REG_NEWLINE a POSIX complement does not contain the newline
 *	. ^ $		. does not match a newline, ^ and $ match around one: REG_NEWLINE
 *	\1		refers to a group. The C library requires that the group ends before the
 *			\1, in the same alternative. Str allows other groups, too: such a \1
 *			matches nothing or, in a loop, what its group matched in the previous
 *			iteration. Here it is an error
 *
 * The translation adds no groups, so that groups keep their numbers. str_regexp_match() accepts
 * only a match at offset 0: regexec(3) finds the leftmost match, so the offset of this match shows
 * whether there is one at 0. Str matches bytes in any locale, so patterns are compiled in the C
 * locale, and a compiled pattern keeps this locale.
 */
#include "base/str_regexp.h"

#include <locale.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* regcomp(3) of the C library is recursive. The length of a pattern limits how deeply it nests. */
enum { LONGEST_PATTERN = 4096, N_BYTES = 256, LAST_REFERENCE = 9 };

struct str_regexp {
	regex_t regex;
};

struct translation {
	const char *at;
	FILE *out;
	const char *why; /* what is wrong with the pattern; NULL: nothing so far */
	unsigned int n_groups, n_open;
	uint16_t open[LONGEST_PATTERN / 2]; /* the numbers of the open groups, as a stack */
	/* for each of \1 to \9: whether it may refer to its group */
	bool is_closed[LAST_REFERENCE + 1];
};

/*
 * Read a sequence of * + ?. Return the one operator that is equivalent to the sequence, or 0 if the
 * sequence is empty.
 */
static char take_repetition(struct translation *t)
{
	char repetition = '\0';

	for (; *t->at && strchr("*+?", *t->at); t->at++)
		if (!repetition || repetition == *t->at)
			repetition = *t->at;
		else
			repetition = '*';
	return repetition;
}

static void put_repetition(struct translation *t)
{
	char repetition = take_repetition(t);

	if (repetition)
		fputc(repetition, t->out);
}

/*
 * Write ASSERTION and the repetition after it, if any. Repeating an assertion has no effect, so the
 * repetition is not written. An assertion before * or ? need not hold, so nothing is written.
 */
static void put_assertion(struct translation *t, const char *assertion)
{
	char repetition = take_repetition(t);

	if (!repetition || repetition == '+')
		fputs(assertion, t->out);
}

static void put_literal(struct translation *t, char c)
{
	if (strchr(".[{()*+?^$|\\", c))
		fputc('\\', t->out);
	fputc(c, t->out);
	put_repetition(t);
}

/*
 * Write the bytes of SET that have no special meaning in a bracket expression, as ranges. Return
 * the number of ranges.
 */
static size_t put_plain_ranges(FILE *out, const bool set[N_BYTES])
{
	size_t n = 0;

	for (int first = 1, last; first < N_BYTES; first = last + 1) {
		last = first;
		if (!set[first] || strchr("]^-[", first))
			continue;
		while (last + 1 < N_BYTES && set[last + 1] && !strchr("]^-[", last + 1))
			last++;
		fputc(first, out);
		if (last > first)
			fprintf(out, "-%c", last);
		n++;
	}
	return n;
}

/*
 * Write SET as a bracket expression. The order prevents special meanings: ']' first, '-' last, '^'
 * not first, and '[' not before '.', ':' or '='.
 */
static void put_set(struct translation *t, const bool set[N_BYTES])
{
	bool any_before_caret;

	fputc('[', t->out);
	if (set[']'])
		fputc(']', t->out);
	any_before_caret = put_plain_ranges(t->out, set) || set[']'] || set['['];
	if (set['['])
		fputc('[', t->out);
	if (set['^'] && !any_before_caret)
		/*
		 * Only '-' and '^' are left: translate_set() writes a set of '^' alone as an
		 * escape.
		 */
		fputs("-^", t->out);
	else
		fprintf(t->out, "%s%s", set['^'] ? "^" : "", set['-'] ? "-" : "");
	fputc(']', t->out);
}

/* Read a set, after its '[' was read. Set SET[C] for each byte C that the set contains. */
static void read_set(struct translation *t, bool set[N_BYTES])
{
	bool complement = *t->at == '^';
	const char *start = t->at += complement;

	while (*t->at && (*t->at != ']' || t->at == start)) {
		unsigned char first = (unsigned char)t->at[0], last = first;

		if (t->at[1] == '-' && t->at[2] && t->at[2] != ']') {
			last = (unsigned char)t->at[2];
			t->at += 2;
		}
		t->at++;
		for (unsigned int c = first; c <= last; c++)
			set[c] = true;
	}
	if (!*t->at)
		t->why = "[ without its ]";
	else
		t->at++;
	for (int c = 1; complement && c < N_BYTES; c++)
		set[c] = !set[c];
}

static void translate_set(struct translation *t)
{
	bool set[N_BYTES] = { false };
	size_t n = 0;

	read_set(t, set);
	for (int c = 1; c < N_BYTES; c++)
		n += set[c];
	if (n == 0)
		fputs("[^\001-\377]", t->out); /* an empty set: matches no byte of a text */
	else if (n == 1 && set['^'])
		fputs("\\^", t->out);
	else
		put_set(t, set);
	put_repetition(t);
}

static void open_group(struct translation *t)
{
	t->open[t->n_open++] = (uint16_t)++t->n_groups;
	fputc('(', t->out);
}

static void close_group(struct translation *t)
{
	unsigned int group;

	if (t->n_open == 0) {
		t->why = "\\) without its \\(";
		return;
	}
	group = t->open[--t->n_open];
	if (group <= LAST_REFERENCE)
		t->is_closed[group] = true;
	fputc(')', t->out);
	put_repetition(t);
}

static void refer_to_group(struct translation *t, char digit)
{
	if (!t->is_closed[digit - '0']) {
		t->why = "refers to a group that does not end before";
		return;
	}
	fprintf(t->out, "\\%c", digit);
	put_repetition(t);
}

/* Translate an escape, after its backslash was read. */
static void translate_escape(struct translation *t)
{
	char c = *t->at;

	if (c)
		t->at++;
	if (c == '(') {
		open_group(t);
	} else if (c == ')') {
		close_group(t);
	} else if (c == '|') {
		fputc('|', t->out);
	} else if (c == 'b') {
		put_assertion(t, "\\b");
	} else if (c >= '1' && c <= '9') {
		refer_to_group(t, c);
	} else {
		/* A backslash at the end of the pattern is literal. */
		put_literal(t, c ? c : '\\');
	}
}

/* Translate one item of the pattern and the operators after it. */
static void translate_item(struct translation *t)
{
	char c = *t->at++;

	switch (c) {
	case '\\':
		translate_escape(t);
		break;
	case '[':
		translate_set(t);
		break;
	case '^':
		put_assertion(t, "^");
		break;
	case '$':
		put_assertion(t, "$");
		break;
	case '.':
		fputc('.', t->out);
		put_repetition(t);
		break;
	default:
		put_literal(t, c);
		break;
	}
}

/*
 * Return the POSIX form of PATTERN. On error return NULL, and set *WHY to the error, or to NULL if
 * out of memory.
 */
static char *translate(const char *pattern, const char **why)
{
	struct translation t = { .at = pattern };
	char *posix = NULL;
	size_t bytes;

	*why = NULL;
	if (strlen(pattern) > LONGEST_PATTERN) {
		*why = "is longer than 4096 bytes";
		return NULL;
	}
	t.out = open_memstream(&posix, &bytes);
	if (!t.out)
		return NULL;
	while (*t.at && !t.why)
		translate_item(&t);
	if (!t.why && t.n_open)
		t.why = "\\( without its \\)";
	*why = t.why;
	if (fclose(t.out) != 0 || t.why) {
		free(posix);
		return NULL;
	}
	return posix;
}

/*
 * Call regcomp(3) in the C locale. Return the error code of regcomp(3), and put the message into
 * TEXT.
 */
static int compile(regex_t *regex, const char *posix, char *text, size_t text_bytes)
{
	locale_t c = newlocale(LC_ALL_MASK, "C", NULL), before;
	int code;

	if (!c)
		return REG_ESPACE;
	before = uselocale(c);
	code = regcomp(regex, posix, REG_EXTENDED | REG_NEWLINE);
	if (code)
		regerror(code, regex, text, text_bytes);
	uselocale(before);
	freelocale(c);
	return code;
}

int str_regexp_new(struct ocp_ctx *ctx, const char *pattern, struct str_regexp **out)
{
	struct str_regexp *re = malloc(sizeof(*re));
	char text[128] = "";
	const char *why;
	char *posix = translate(pattern, &why);
	int code = REG_ESPACE;

	*out = NULL;
	if (re && posix)
		code = compile(&re->regex, posix, text, sizeof(text));
	free(posix);
	if (code == 0) {
		*out = re;
		return 0;
	}
	free(re);
	if (!why && code == REG_ESPACE)
		return ctx_no_memory(ctx);
	return ctx_error(ctx, -EINVAL, "regular expression '%s': %s", pattern, why ? why : text);
}

void str_regexp_free(struct str_regexp *re)
{
	if (!re)
		return;
	regfree(&re->regex);
	free(re);
}

bool str_regexp_match(const struct str_regexp *re, const char *text)
{
	regmatch_t match;

	return regexec(&re->regex, text, 1, &match, 0) == 0 && match.rm_so == 0;
}

// SPDX-License-Identifier: MIT
/*
 * Compiles the text of a filter to postfix form, which bpf/filter.bpf.h runs on each hit.
 *
 *	any        = all { "||" all }
 *	all        = single { "&&" single }
 *	single     = "!" single | "(" any ")" | comparison
 *	comparison = arg ( "==" | "=" | "!=" ) ( number | string | "true" | "false" )
 *	           | arg ( "<" | "<=" | ">" | ">=" ) number
 *	           | arg "^=" string			(starts with)
 *	arg        = argN | the argument's name
 *
 * Numbers are decimal or, with 0x, hexadecimal, and may be negative. A number with a point or an
 * exponent (1.5, 1e3, 0x1p-3), and inf, is a float. An integer or float in the filter can be
 * compared with arguments that are ints or floats, without rounding: for example, 50 with the float
 * 50.0, and 1.5 with an int. A character in quotes ('x') is the number of its byte, as in OCaml's
 * memory; true is 1, and false is 0. Strings are in double quotes and may contain OCaml's escapes
 * \n \t \r \b \" \\ \ddd \xhh. && and || always evaluate both sides; this makes no difference,
 * since comparisons have no side effects.
 */
#include "measure/args/filter.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nesting is limited because the parser is recursive. */
enum { MAX_NESTING = 64, WHY_BYTES = 160, SHOWN_TEXT = 300 };

struct parser {
	const char *text;
	const char *at;
	struct filter *filter;
	struct asked_names *asked;
	__u32 args_used;
	unsigned int nesting;
	int code; /* the error as a negative errno */
	size_t column;
	char why[WHY_BYTES];
};

__attribute__((format(printf, 3, 4))) static bool fail(struct parser *p, const char *where,
						       const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
	p->column = (size_t)(where - p->text) + 1;
	p->code = -EINVAL;
	return false;
}

static bool fail_limit(struct parser *p, const char *where, const char *what, int limit)
{
	fail(p, where, "%s: the limit is %d", what, limit);
	p->code = -E2BIG;
	return false;
}

static void skip_spaces(struct parser *p)
{
	p->at += strspn(p->at, " \t\r\n");
}

static bool accept_token(struct parser *p, const char *token)
{
	size_t n = strlen(token);

	skip_spaces(p);
	if (strncmp(p->at, token, n) != 0)
		return false;
	p->at += n;
	return true;
}

static bool is_decimal_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_identifier_char(char c)
{
	return is_decimal_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *digit = c ? strchr(digits, c | (c >= 'A' && c <= 'F' ? 0x20 : 0)) : NULL;

	return digit ? (int)(digit - digits) : -1;
}

static bool append_op(struct parser *p, const struct filter_op *op)
{
	struct filter *filter = p->filter;

	if (filter->n_ops == FILTER_OPS_MAX)
		return fail_limit(p, p->at, "too many comparisons and operators", FILTER_OPS_MAX);
	filter->ops[filter->n_ops++] = *op;
	return true;
}

/* ---- arguments, numbers and strings --------------------------------------------------------- */

/*
 * If the text at AT begins with a word "argN", set *ARG to N, or to ARGS_MAX if N is too large, and
 * return the end of the word. Otherwise return NULL.
 */
static const char *parse_arg(const char *at, unsigned int *arg)
{
	char *end;
	unsigned long n;

	if (strncmp(at, "arg", 3) != 0 || !is_decimal_digit(at[3]))
		return NULL;
	n = strtoul(at + 3, &end, 10);
	if (is_identifier_char(*end))
		return NULL;
	*arg = n < ARGS_MAX ? (unsigned int)n : ARGS_MAX;
	return end;
}

/* Return the length in bytes of the name at AT. */
static size_t name_bytes(const char *at)
{
	size_t n = 0;

	while (is_identifier_char(at[n]) || (n && at[n] == '\''))
		n++;
	return n;
}

/*
 * Return the argument number of NAME, which has N bytes. If ASKED lacks NAME, add it, or return
 * ARGS_ALL if ASKED is full.
 */
static unsigned int number_of_name(struct asked_names *asked, const char *name, size_t n)
{
	unsigned int i = 0;

	while (i < asked->n &&
	       (strlen(asked->names[i]) != n || memcmp(asked->names[i], name, n) != 0))
		i++;
	if (i == ARGS_NAMED)
		return ARGS_ALL;
	if (i == asked->n) {
		memcpy(asked->names[i], name, n);
		asked->names[i][n] = '\0';
		asked->n++;
	}
	return ARGS_MAX + i;
}

static bool take_arg(struct parser *p, __u8 *arg)
{
	const char *end;
	unsigned int n;

	skip_spaces(p);
	end = parse_arg(p->at, &n);
	if (end && n == ARGS_MAX)
		return fail(p, p->at, "the last argument that can be read is arg%d", ARGS_MAX - 1);
	if (!end) {
		const size_t length = name_bytes(p->at);

		if (!arg_name_is_sound(p->at, length))
			return fail(p, p->at,
				    "an argument (arg0, arg1, ..., or its name) is expected");
		n = number_of_name(p->asked, p->at, length);
		if (n == ARGS_ALL)
			return fail_limit(p, p->at, "too many names of arguments", ARGS_NAMED);
		end = p->at + length;
	}
	*arg = (__u8)n;
	p->args_used |= 1U << n;
	p->at = end;
	return true;
}

static bool take_comparison(struct parser *p, __u8 *comparison)
{
	/* The first token that matches is taken, so "==" must come before "=". */
	static const struct {
		const char *token;
		enum filter_comparison comparison;
	} comparisons[] = {
		{ "==", FILTER_EQ }, { "=", FILTER_EQ },      { "!=", FILTER_NE },
		{ "<=", FILTER_LE }, { "<", FILTER_LT },      { ">=", FILTER_GE },
		{ ">", FILTER_GT },  { "^=", FILTER_STARTS },
	};

	for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++)
		if (accept_token(p, comparisons[i].token)) {
			*comparison = (__u8)comparisons[i].comparison;
			return true;
		}
	return fail(p, p->at, "a comparison (== != < <= > >= ^=) is expected");
}

/*
 * Set int_comparison and number of OP for a comparison with a real number that equals no int. BELOW
 * is the largest int below the real number. If ARE_ABOVE, all ints are above the real number, and
 * BELOW is not used.
 */
static void compare_with_gap(struct filter_op *op, __s64 below, bool are_above)
{
	const bool is_less = op->comparison == FILTER_LT || op->comparison == FILTER_LE;
	const bool is_equal = op->comparison == FILTER_EQ;

	op->number = below;
	op->int_comparison = is_less ? FILTER_LE : FILTER_GT;
	if (!are_above && !is_equal && op->comparison != FILTER_NE)
		return;
	/* The result is the same for all ints. */
	op->number = INT64_MIN;
	op->int_comparison = is_less || is_equal ? FILTER_LT : FILTER_GE;
}

static void set_real(struct filter_op *op, double real)
{
	const double end = 0x1p63;
	__s64 below = INT64_MAX;
	__u64 bits;

	memcpy(&bits, &real, sizeof(bits));
	op->ordered = filter_order(bits);
	op->int_comparison = op->comparison;
	if (real >= -end && real < end) {
		op->number = (__s64)real;
		if ((double)op->number == real)
			return;
		below = op->number - (real < 0);
	}
	compare_with_gap(op, below, real < -end);
}

static void set_int(struct filter_op *op, __s64 number)
{
	set_real(op, (double)number);
	op->int_comparison = op->comparison;
	op->number = number;
}

/* Like strtod(3), but the decimal point is "." in every locale. */
static double read_real(const char *text, char **end)
{
	locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double real;

	if (locale == (locale_t)0)
		return strtod(text, end);
	real = strtod_l(text, end, locale);
	freelocale(locale);
	return real;
}

/*
 * If the text at AT begins with "inf" or "infinity", with an optional minus sign, return the end of
 * this word, else NULL.
 */
static const char *after_infinity(const char *at)
{
	static const char name[] = "infinity";
	size_t n = 0;

	at += *at == '-';
	while (name[n] && at[n] == name[n])
		n++;
	return (n == 3 || n == sizeof(name) - 1) && !is_identifier_char(at[n]) ? at + n : NULL;
}

static bool take_digits(struct parser *p, struct filter_op *op)
{
	const char *start = p->at, *digits = start + (*start == '-');
	bool is_hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
	char *end, *int_end;
	double real;
	__s64 number;

	if (is_hex ? hex_digit(digits[2]) < 0 : !is_decimal_digit(*digits))
		return fail(p, start, "digits are expected");
	real = read_real(start, &end);
	errno = 0;
	number = strtoll(start, &int_end, is_hex ? 16 : 10);
	if (end == int_end && errno)
		return fail(p, start, "the number does not fit into 64 bits");
	if (end > int_end && isinf(real))
		return fail(p, start, "the number is too large for a float");
	if (is_identifier_char(*end) || *end == '.')
		return fail(p, end, "unexpected character after the number");
	if (end == int_end)
		set_int(op, number);
	else
		set_real(op, real);
	p->at = end;
	return true;
}

static bool parse_number_literal(struct parser *p, struct filter_op *op)
{
	const char *end = after_infinity(p->at);

	if (!end)
		return take_digits(p, op);
	set_real(op, *p->at == '-' ? -INFINITY : INFINITY);
	p->at = end;
	return true;
}

/*
 * Parse the escape at p->at, after its backslash, and set *BYTE to the byte that the escape stands
 * for.
 */
static bool parse_escape(struct parser *p, char *byte)
{
	static const char names[] = "ntrb\"\\'", bytes[] = "\n\t\r\b\"\\'";
	const char *at = p->at, *name = *at ? strchr(names, *at) : NULL;

	if (name) {
		*byte = bytes[name - names];
		p->at++;
	} else if (*at == 'x' && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0) {
		*byte = (char)(hex_digit(at[1]) * 16 + hex_digit(at[2]));
		p->at += 3;
	} else if (is_decimal_digit(at[0]) && is_decimal_digit(at[1]) && is_decimal_digit(at[2])) {
		int code = (at[0] - '0') * 100 + (at[1] - '0') * 10 + (at[2] - '0');

		if (code > 255)
			return fail(p, at, "the largest byte is \\255");
		*byte = (char)code;
		p->at += 3;
	} else {
		return fail(p, at, "\\ goes before one of n t r b \" \\ or ddd or xhh");
	}
	return true;
}

static bool parse_string_literal(struct parser *p, struct filter_string *string)
{
	const char *start = p->at++;

	*string = (struct filter_string){ 0 };
	while (*p->at != '"') {
		char byte = *p->at;

		if (!byte)
			return fail(p, start, "the string has no closing quote");
		p->at++;
		if (byte == '\\' && !parse_escape(p, &byte))
			return false;
		if (string->n_bytes == FILTER_STRING_BYTES)
			return fail_limit(p, start, "too many bytes in a string",
					  FILTER_STRING_BYTES);
		string->bytes[string->n_bytes++] = byte;
	}
	p->at++;
	return true;
}

static bool string_operand(struct parser *p, struct filter_op *op, const char *comparison_at)
{
	struct filter *filter = p->filter;

	op->kind = FILTER_STRING;
	if (op->comparison != FILTER_EQ && op->comparison != FILTER_NE &&
	    op->comparison != FILTER_STARTS)
		return fail(p, comparison_at, "strings are compared with ==, != or ^=");
	if (filter->n_strings == FILTER_STRINGS_MAX)
		return fail_limit(p, p->at, "too many strings", FILTER_STRINGS_MAX);
	op->string = (__u8)filter->n_strings;
	return parse_string_literal(p, &filter->strings[filter->n_strings++]);
}

/*
 * Return true if the text at AT is true, false or a quoted character. All of these are ints in
 * OCaml's memory.
 */
static bool is_named_number(const char *at)
{
	const size_t n = name_bytes(at);

	return *at == '\'' || (n == 4 && memcmp(at, "true", n) == 0) ||
	       (n == 5 && memcmp(at, "false", n) == 0);
}

static bool take_named_number(struct parser *p, struct filter_op *op, const char *comparison_at)
{
	const char *start = p->at++;
	char byte = *start == 't';

	if (*start != '\'') {
		if (op->comparison != FILTER_EQ && op->comparison != FILTER_NE)
			return fail(p, comparison_at, "true and false are compared with == or !=");
		p->at = start + name_bytes(start);
	} else {
		byte = *p->at;
		if (!byte || byte == '\'')
			return fail(p, start, "a character in quotes is expected: 'x'");
		p->at++;
		if (byte == '\\' && !parse_escape(p, &byte))
			return false;
		if (*p->at != '\'')
			return fail(p, start, "a character in quotes is expected: 'x'");
		p->at++;
	}
	set_int(op, (unsigned char)byte);
	return true;
}

static bool comparison(struct parser *p)
{
	struct filter_op op = { .kind = FILTER_NUMBER };
	const char *comparison_at, *arg_at;

	skip_spaces(p);
	arg_at = p->at;
	if (!take_arg(p, &op.arg))
		return false;
	skip_spaces(p);
	comparison_at = p->at;
	if (!take_comparison(p, &op.comparison))
		return false;
	skip_spaces(p);
	if (*p->at == '"')
		return string_operand(p, &op, comparison_at) && append_op(p, &op);
	if (op.comparison == FILTER_STARTS)
		return fail(p, p->at, "^= (starts with) is followed by a string in double quotes");
	if (is_named_number(p->at))
		return take_named_number(p, &op, comparison_at) && append_op(p, &op);
	if (strncmp(p->at, "nan", 3) == 0 && !is_identifier_char(p->at[3]))
		return fail(p, p->at, "no number is equal to nan; !(%.*s <= inf) is true of it",
			    (int)(name_bytes(arg_at)), arg_at);
	if (*p->at != '-' && !is_decimal_digit(*p->at) && !after_infinity(p->at))
		return fail(p, p->at, "a number or a string in double quotes is expected");
	return parse_number_literal(p, &op) && append_op(p, &op);
}

/* ---- operators ------------------------------------------------------------------------------ */

static bool any(struct parser *p);

static bool single(struct parser *p)
{
	bool is_right;

	if (p->nesting == MAX_NESTING)
		return fail_limit(p, p->at, "nested too deeply", MAX_NESTING);
	p->nesting++;
	if (accept_token(p, "!")) {
		is_right = single(p) && append_op(p, &(struct filter_op){ .kind = FILTER_NOT });
	} else if (accept_token(p, "(")) {
		is_right = any(p);
		if (is_right && !accept_token(p, ")"))
			is_right = fail(p, p->at, "&&, || or ) is expected");
	} else {
		is_right = comparison(p);
	}
	p->nesting--;
	return is_right;
}

static bool all(struct parser *p)
{
	if (!single(p))
		return false;
	while (accept_token(p, "&&"))
		if (!single(p) || !append_op(p, &(struct filter_op){ .kind = FILTER_AND }))
			return false;
	return true;
}

static bool any(struct parser *p)
{
	if (!all(p))
		return false;
	while (accept_token(p, "||"))
		if (!all(p) || !append_op(p, &(struct filter_op){ .kind = FILTER_OR }))
			return false;
	return true;
}

int filter_parse(struct ocp_ctx *ctx, const char *text, struct asked_names *asked,
		 struct filter *filter, __u32 *args_used)
{
	struct parser p = { .text = text, .at = text, .filter = filter, .asked = asked };
	bool is_right;

	*filter = (struct filter){ 0 };
	is_right = any(&p);
	skip_spaces(&p);
	if (is_right && *p.at)
		is_right = fail(&p, p.at, "&&, || or the end is expected");
	if (!is_right) {
		*filter = (struct filter){ 0 };
		return ctx_error(ctx, p.code, "filter %.*s: column %zu: %s", SHOWN_TEXT, text,
				 p.column, p.why);
	}
	*args_used = p.args_used;
	return 0;
}

int filter_parse_arg(struct ocp_ctx *ctx, const char *text, struct asked_names *asked)
{
	unsigned int arg;
	const char *end = parse_arg(text, &arg);

	if (!end && arg_name_is_sound(text, strlen(text))) {
		arg = number_of_name(asked, text, strlen(text));
		if (arg < ARGS_ALL)
			return (int)arg;
		return ctx_error(ctx, -E2BIG, "argument %s: more than %d names of arguments", text,
				 ARGS_NAMED);
	}
	if (!end || *end)
		return ctx_error(ctx, -EINVAL,
				 "argument %.*s: arg0, arg1, ..., or its name is expected",
				 SHOWN_TEXT, text);
	if (arg == ARGS_MAX)
		return ctx_error(ctx, -EINVAL,
				 "argument %.*s: the last argument that can be read is arg%d",
				 SHOWN_TEXT, text, ARGS_MAX - 1);
	return (int)arg;
}

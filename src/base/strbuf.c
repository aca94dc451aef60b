// SPDX-License-Identifier: MIT
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 4096, MAX_DIGITS = 20 };

static const uint64_t powers_of_10[] = {
	1,	  10,	     100,	 1000,	      10000,	    100000,	  1000000,
	10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000
};

void strbuf_free(struct strbuf *buf)
{
	free(buf->bytes);
	*buf = (struct strbuf){ 0 };
}

bool strbuf_make_room(struct strbuf *buf, size_t n)
{
	size_t room = buf->room ? buf->room : FIRST_ROOM;
	char *grown;

	if (buf->is_short)
		return false;
	while (room - buf->n <= n)
		room *= 2;
	grown = realloc(buf->bytes, room);
	if (!grown) {
		buf->is_short = true;
		return false;
	}
	buf->bytes = grown;
	buf->room = room;
	return true;
}

void strbuf_str(struct strbuf *buf, const char *string)
{
	strbuf_add(buf, string, strlen(string));
}

/*
 * Write VALUE in decimal, with at least N_LEAST digits, so that the last digit is just before END.
 * Return the address of the first digit.
 */
static char *write_digits(char *end, uint64_t value, unsigned int n_least)
{
	char *at = end;

	do {
		*--at = (char)('0' + value % 10);
		value /= 10;
	} while (value || end - at < (ptrdiff_t)n_least);
	return at;
}

void strbuf_u64(struct strbuf *buf, uint64_t value)
{
	char digits[MAX_DIGITS], *end = digits + sizeof(digits);
	const char *at = write_digits(end, value, 1);

	strbuf_add(buf, at, (size_t)(end - at));
}

void strbuf_scaled(struct strbuf *buf, uint64_t value, unsigned int decimals)
{
	char digits[MAX_DIGITS + 1], *end = digits + sizeof(digits), *at;
	const uint64_t power = powers_of_10[decimals];

	at = write_digits(end, value % power, decimals);
	*--at = '.';
	at = write_digits(at, value / power, 1);
	strbuf_add(buf, at, (size_t)(end - at));
}

void strbuf_real(struct strbuf *buf, double value, unsigned int decimals)
{
	const double power = (double)powers_of_10[decimals];

	/* NaN compares false, so this condition makes it 0, too. */
	if (!(value > 0))
		value = 0;
	if (value * power < 0x1p63)
		strbuf_scaled(buf, (uint64_t)(value * power + 0.5), decimals);
	else
		strbuf_scaled(buf, INT64_MAX, decimals);
}

/* ---- untrusted strings ---------------------------------------------------------------------- */

size_t utf8_character_bytes(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	const unsigned char first = at[0];
	unsigned char least = 0x80, most = 0xbf;
	size_t n;

	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	n = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if (first == 0xe0)
		least = 0xa0;
	else if (first == 0xed)
		most = 0x9f;
	else if (first == 0xf0)
		least = 0x90;
	else if (first == 0xf4)
		most = 0x8f;
	if (at[1] < least || at[1] > most)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* The characters that are copied unchanged in all formats. */
static const bool is_plain[256] = {
	[' ' ... '!'] = true,
	['#' ... '['] = true,
	[']' ... '~'] = true,
};

/*
 * Add STRING, with some characters replaced. ESCAPE returns the replacement of an ASCII character,
 * or NULL if the character is copied unchanged.
 */
static void add_escaped(struct strbuf *buf, const char *string,
			const char *(*escape)(unsigned char c, char scratch[8]))
{
	const unsigned char *at = (const unsigned char *)string, *plain = at;
	char scratch[8];

	for (;;) {
		const char *instead;
		size_t n;

		while (is_plain[*at])
			at++;
		if (!*at)
			break;
		n = utf8_character_bytes((const char *)at);
		instead = n == 1 ? escape(*at, scratch) : n ? NULL : "\xef\xbf\xbd";
		if (!instead) {
			at += n;
			continue;
		}
		strbuf_add(buf, (const char *)plain, (size_t)(at - plain));
		strbuf_str(buf, instead);
		plain = ++at;
	}
	strbuf_add(buf, (const char *)plain, (size_t)(at - plain));
}

static const char *escape_nothing(unsigned char c, char scratch[8])
{
	(void)c;
	(void)scratch;
	return NULL;
}

char *copy_utf8(const char *text)
{
	struct strbuf buf = { 0 };

	add_escaped(&buf, text, escape_nothing);
	strbuf_add(&buf, "", 1);
	if (!buf.is_short)
		return buf.bytes;
	strbuf_free(&buf);
	return NULL;
}

static const char *escape_label(unsigned char c, char scratch[8])
{
	(void)scratch;
	switch (c) {
	case '\\':
		return "\\\\";
	case '"':
		return "\\\"";
	case '\n':
		return "\\n";
	default:
		return NULL;
	}
}

static const char *escape_json(unsigned char c, char scratch[8])
{
	static const char hex[] = "0123456789abcdef";

	if (c == '\\')
		return "\\\\";
	if (c == '"')
		return "\\\"";
	if (c >= ' ' && c != 0x7f)
		return NULL;
	memcpy(scratch, "\\u00", 4);
	scratch[4] = hex[c >> 4];
	scratch[5] = hex[c & 15];
	scratch[6] = '\0';
	return scratch;
}

void strbuf_label(struct strbuf *buf, const char *string)
{
	add_escaped(buf, string, escape_label);
}

void strbuf_json(struct strbuf *buf, const char *string)
{
	if (!string) {
		strbuf_lit(buf, "null");
		return;
	}
	strbuf_lit(buf, "\"");
	add_escaped(buf, string, escape_json);
	strbuf_lit(buf, "\"");
}

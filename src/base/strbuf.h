/* SPDX-License-Identifier: MIT */
/*
 * A growing text, for replies and descriptions. Names and paths come from other processes and may
 * contain any bytes. So strbuf_label() and strbuf_json() replace invalid UTF-8 by U+FFFD, and
 * escape characters as the label format and JSON require.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct strbuf {
	char *bytes; /* the text, without a terminating NUL */
	size_t n, room;
	bool is_short; /* memory was short: `bytes` is incomplete */
};

/* Add a string literal. */
#define strbuf_lit(buf, literal) strbuf_add((buf), (literal), sizeof(literal) - 1)

void strbuf_free(struct strbuf *buf);
/* Make room for N more bytes. Returns false if out of memory. */
bool strbuf_make_room(struct strbuf *buf, size_t n);

static inline void strbuf_add(struct strbuf *buf, const char *bytes, size_t n)
{
	if (buf->room - buf->n <= n && !strbuf_make_room(buf, n))
		return;
	memcpy(buf->bytes + buf->n, bytes, n);
	buf->n += n;
}

void strbuf_str(struct strbuf *buf, const char *string);
void strbuf_u64(struct strbuf *buf, uint64_t value);
/*
 * Add VALUE with a decimal point before its last DECIMALS digits (1 to 9): VALUE 1500 with DECIMALS
 * 3 gives 1.500
 */
void strbuf_scaled(struct strbuf *buf, uint64_t value, unsigned int decimals);
/*
 * Add VALUE with DECIMALS (1 to 12) decimals. A negative value and NaN become 0. A value that is
 * too large, infinity included, becomes INT64_MAX with a decimal point before its last DECIMALS
 * digits.
 */
void strbuf_real(struct strbuf *buf, double value, unsigned int decimals);

/*
 * Return the length of the UTF-8 character at TEXT, or 0 if the bytes are not valid UTF-8. TEXT
 * ends with a zero byte. Overlong forms, surrogates and numbers above U+10FFFF are not valid.
 */
size_t utf8_character_bytes(const char *text);

/*
 * Return a copy of TEXT with U+FFFD in the place of each byte that is not part of valid UTF-8. The
 * caller frees the copy. NULL: out of memory.
 */
char *copy_utf8(const char *text);

/* Add STRING as a label value for Prometheus and OpenMetrics, without the quotes around it. */
void strbuf_label(struct strbuf *buf, const char *string);
/* Add STRING as a JSON string with quotes, or null if STRING is NULL. */
void strbuf_json(struct strbuf *buf, const char *string);

#endif

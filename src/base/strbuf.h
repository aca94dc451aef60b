/* SPDX-License-Identifier: MIT */
/*
 * A growing text, for replies and descriptions. Names and paths come from other processes and may
 * contain any bytes. So strbuf_label() and strbuf_json() replace invalid UTF-8 by U+FFFD, and write
 * the escapes of their format.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct strbuf {
	char *bytes; /* not terminated */
	size_t n, room;
	bool is_short; /* out of memory: `bytes` is incomplete */
};

/* Add a literal. */
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
/* Add VALUE with a decimal point before its last DECIMALS (1 to 9) digits: 1500 with 3 is 1.500 */
void strbuf_scaled(struct strbuf *buf, uint64_t value, unsigned int decimals);
/* Add VALUE with DECIMALS (1 to 9) decimals. Negative, infinite and NaN values become 0. */
void strbuf_real(struct strbuf *buf, double value, unsigned int decimals);

/*
 * Return the length of the UTF-8 character at TEXT, which ends with a zero byte. Return 0 if the
 * bytes are not valid UTF-8. Overlong forms, surrogates and numbers above U+10FFFF are not valid.
 */
size_t utf8_character_bytes(const char *text);

/* Add a label value for Prometheus and OpenMetrics, without quotes. */
void strbuf_label(struct strbuf *buf, const char *string);
/* Add a JSON string with quotes; null if STRING is NULL. */
void strbuf_json(struct strbuf *buf, const char *string);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A text that grows: what is served is written into one. Names and paths come from other people's
 * processes, which may call their probes what they like: what is no UTF-8 becomes U+FFFD, and each
 * format has its own escapes.
 */
#ifndef SERVE_STRBUF_H
#define SERVE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct strbuf {
	char *bytes; /* not terminated */
	size_t n, room;
	bool is_short; /* memory ran out: nothing can be said about bytes */
};

/* A literal. */
#define strbuf_lit(buf, literal) strbuf_add((buf), (literal), sizeof(literal) - 1)

void strbuf_free(struct strbuf *buf);
/* Room for N more bytes than there are now? */
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
/* VALUE, which is not negative, with a point DECIMALS (1 to 9) before its end: 1500, 3: 1.500 */
void strbuf_scaled(struct strbuf *buf, uint64_t value, unsigned int decimals);
/* VALUE with DECIMALS (1 to 9) digits behind the point; what is not finite, or negative, is 0. */
void strbuf_real(struct strbuf *buf, double value, unsigned int decimals);

/* The value of a label as Prometheus and OpenMetrics have it, without the quotes around it. */
void strbuf_label(struct strbuf *buf, const char *string);
/* A string as JSON has it, with its quotes; null if it is NULL. */
void strbuf_json(struct strbuf *buf, const char *string);

#endif

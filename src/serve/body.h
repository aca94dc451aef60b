/* SPDX-License-Identifier: MIT */
/*
 * A text that grows: what is served is written into one. Names and paths come from other people's
 * processes, which may call their probes what they like: what is no UTF-8 becomes U+FFFD, and each
 * format has its own escapes.
 */
#ifndef SERVE_BODY_H
#define SERVE_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct body {
	char *bytes; /* not terminated */
	size_t n, room;
	bool is_short; /* memory ran out: nothing can be said about bytes */
};

/* A literal. */
#define body_lit(body, literal) body_add((body), (literal), sizeof(literal) - 1)

void body_free(struct body *body);
/* Room for N more bytes than there are now? */
bool body_make_room(struct body *body, size_t n);

static inline void body_add(struct body *body, const char *bytes, size_t n)
{
	if (body->room - body->n <= n && !body_make_room(body, n))
		return;
	memcpy(body->bytes + body->n, bytes, n);
	body->n += n;
}

void body_str(struct body *body, const char *string);
void body_u64(struct body *body, uint64_t value);
/* VALUE, which is not negative, with a point DECIMALS (1 to 9) before its end: 1500, 3: 1.500 */
void body_scaled(struct body *body, uint64_t value, unsigned int decimals);
/* VALUE with DECIMALS (1 to 9) digits behind the point; what is not finite, or negative, is 0. */
void body_real(struct body *body, double value, unsigned int decimals);

/* The value of a label as Prometheus and OpenMetrics have it, without the quotes around it. */
void body_label(struct body *body, const char *string);
/* A string as JSON has it, with its quotes; null if it is NULL. */
void body_json(struct body *body, const char *string);

#endif

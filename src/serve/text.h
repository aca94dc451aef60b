/* SPDX-License-Identifier: MIT */
/*
 * A text that grows: what is served is written into one. Names and paths come from other people's
 * processes, which may call their probes what they like: what is no UTF-8 becomes U+FFFD, and each
 * format has its own escapes.
 */
#ifndef SERVE_TEXT_H
#define SERVE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *bytes; /* not terminated */
	size_t n, room;
	bool is_short; /* memory ran out: nothing can be said about bytes */
};

/* A literal. */
#define text_lit(text, literal) text_add((text), (literal), sizeof(literal) - 1)

void text_free(struct text *text);
void text_add(struct text *text, const char *bytes, size_t n);
void text_str(struct text *text, const char *string);
void text_u64(struct text *text, uint64_t value);
/* VALUE, which is not negative, with a point DECIMALS (1 to 9) before its end: 1500, 3: 1.500 */
void text_scaled(struct text *text, uint64_t value, unsigned int decimals);
/* VALUE with DECIMALS (1 to 9) digits behind the point; what is not finite, or negative, is 0. */
void text_real(struct text *text, double value, unsigned int decimals);

/* The value of a label as Prometheus and OpenMetrics have it, without the quotes around it. */
void text_label(struct text *text, const char *string);
/* A string as JSON has it, with its quotes; null if it is NULL. */
void text_json(struct text *text, const char *string);

#endif

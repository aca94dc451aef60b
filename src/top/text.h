/* SPDX-License-Identifier: MIT */
/* Numbers and names for narrow table cells. Works without a screen. */
#ifndef TOP_TEXT_H
#define TOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_BYTES = 32 }; /* enough for any of the numbers below */

/* Return true if the locale's encoding is UTF-8. */
bool text_is_utf8(void);

/*
 * Write a number to TEXT, which has TEXT_BYTES, with about three digits, and return TEXT. Examples
 * follow each function.
 */
const char *text_rate(char *text, double rate);		 /* 0, 9.8, 998, 1.23k; "-" for NAN */
const char *text_ns(char *text, uint64_t ns, bool utf8); /* 998ns, 12.3us, 1.23ms, 17s; "-" for 0 */
const char *text_share(char *text, double share);	 /* 0.12%, 12.3%, 130% */
/* Write all digits of COUNT if they fit into WIDTH columns, otherwise write it like a rate. */
const char *text_count(char *text, uint64_t count, int width);
const char *text_duration(char *text, int64_t seconds); /* 12s, 3m12s, 2h05m, 3d04h */

/* Which part of a text that is too long is cut. Names often differ at both ends. */
enum text_cut { TEXT_CUT_END, TEXT_CUT_FRONT, TEXT_CUT_MIDDLE };

/*
 * Write TEXT to OUT, which has SIZE bytes, in at most WIDTH columns. Characters that do not print,
 * or that change the direction of text, become '?'. Return the number of columns used.
 */
int text_fit(char *out, size_t size, const char *text, int width, enum text_cut cut);
/* Return the width of TEXT in columns. */
int text_width(const char *text);

/* Return the last component of PATH. */
const char *text_base_name(const char *path);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Regular expressions in the syntax of OCaml's Str library: `\(` `\)` group, `\|` separates
 * alternatives, ( ) | { } are literal, * + ? repeat, [set] ^ $ . \b \1 are special, and a backslash
 * quotes any other character.
 */
#ifndef BASE_STR_REGEXP_H
#define BASE_STR_REGEXP_H

#include <stdbool.h>
#include "base/ctx.h"

struct str_regexp;

/* Compile PATTERN. Returns -EINVAL, with a message, if PATTERN is not in Str's syntax. */
int str_regexp_new(struct ocp_ctx *ctx, const char *pattern, struct str_regexp **out);
void str_regexp_free(struct str_regexp *re);

/*
 * Return true if RE matches TEXT from its start, as Str.string_match does. The match need not reach
 * the end of TEXT.
 */
bool str_regexp_match(const struct str_regexp *re, const char *text);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Regular expressions as OCaml's Str library writes them, which is what users of ocaml-probes know:
 * `\(` `\)` `\|` group and alternate, ( ) | { } stand for themselves, * + ? repeat, [set] ^ $ . \b
 * \1 are special, and a backslash quotes any other character.
 */
#ifndef BASE_STR_REGEXP_H
#define BASE_STR_REGEXP_H

#include <stdbool.h>
#include "base/ctx.h"

struct str_regexp;

/* Compile PATTERN. -EINVAL, with a sentence that names it, if it is not in Str's syntax. */
int str_regexp_new(struct ocp_ctx *ctx, const char *pattern, struct str_regexp **out);
void str_regexp_free(struct str_regexp *re);

/* Does TEXT match from its start on? As with Str.string_match the match need not reach its end. */
bool str_regexp_match(const struct str_regexp *re, const char *text);

#endif

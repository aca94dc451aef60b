/* SPDX-License-Identifier: MIT */
/* Advice for a pair whose starts and stops do not match. */
#ifndef CLI_PAIR_NOTE_H
#define CLI_PAIR_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum { PAIR_NOTE_BYTES = 768 };

/*
 * pair_name() writes the name of the pair to TEXT, which has BYTES bytes, possibly truncated:
 * "START,STOP", or START for the calls of a function, where STOP is "". pair_name_length() returns
 * the length of the whole name.
 */
void pair_name(char *text, size_t bytes, const char *start, const char *stop);
size_t pair_name_length(const char *start, const char *stop);

/*
 * If the starts and stops of the pair START,STOP do not match, write a note to TEXT, which has
 * PAIR_NOTE_BYTES bytes, and return true. The note names the problem, its share in SUM, and a
 * remedy or usual causes. The problem is the first of these with a share of at least 1%: mismatched
 * pairs, starts without a key, orphan starts, orphan stops (as a share of the stops). For the calls
 * of a function (STOP is ""), only orphan starts are a problem. Without a problem, set TEXT to ""
 * and return false.
 */
bool pair_note(char *text, const char *start, const char *stop, const struct ocp_pair *sum);

#endif

/* SPDX-License-Identifier: MIT */
/* Advice for a pair whose starts and stops do not match. */
#ifndef CLI_PAIR_NOTE_H
#define CLI_PAIR_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum { PAIR_NOTE_BYTES = 768 };

/*
 * Write the name of the pair to TEXT, which has BYTES bytes: "START,STOP", or START for the calls
 * of a function. pair_name_length() is the length of the whole name.
 */
void pair_name(char *text, size_t bytes, const char *start, const char *stop);
size_t pair_name_length(const char *start, const char *stop);

/*
 * Describe a problem of the pair START,STOP with the numbers SUM in TEXT, of PAIR_NOTE_BYTES: its
 * share, and a remedy or its causes. The first of these with a share of at least 1% is described:
 * mismatched pairs, starts without a key, orphan starts, orphan stops; for the calls of a function,
 * only orphan starts. Without a problem, set TEXT to "" and return false.
 */
bool pair_note(char *text, const char *start, const char *stop, const struct ocp_pair *sum);

#endif

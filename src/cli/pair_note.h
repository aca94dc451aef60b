/* SPDX-License-Identifier: MIT */
/* Advice for a pair whose starts and stops do not match. */
#ifndef CLI_PAIR_NOTE_H
#define CLI_PAIR_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum { PAIR_NOTE_BYTES = 768 };

/*
 * Write the name of the pair to TEXT, of BYTES: "START,STOP", or START for the calls of a function.
 * pair_name_length() is the length of the whole name.
 */
void pair_name(char *text, size_t bytes, const char *start, const char *stop);
size_t pair_name_length(const char *start, const char *stop);

/*
 * If at least 1% of the pairs START,STOP with the numbers SUM are mismatched, or of their starts have no
 * key, or of the starts, or else of the stops, are orphans: write their share and a remedy to TEXT, of
 * PAIR_NOTE_BYTES. Otherwise return false; TEXT is "" then.
 */
bool pair_note(char *text, const char *start, const char *stop, const struct ocp_pair *sum);

#endif

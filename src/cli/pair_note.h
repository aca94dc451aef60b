/* SPDX-License-Identifier: MIT */
/* What to do about a pair in which starts and stops do not find each other. */
#ifndef CLI_PAIR_NOTE_H
#define CLI_PAIR_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum { PAIR_NOTE_BYTES = 768 };

/*
 * If one in a hundred of its starts, or else of its stops, is an orphan, as SUM of the pair
 * START,STOP says: write to TEXT, of PAIR_NOTE_BYTES, how many are, and what helps. False if it is
 * fewer; TEXT is "" then.
 */
bool pair_note(char *text, const char *start, const char *stop, const struct ocp_pair *sum);

#endif

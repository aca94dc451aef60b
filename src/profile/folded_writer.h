/* SPDX-License-Identifier: MIT */
/*
 * Writes a profile in the folded form, which flamegraph.pl, speedscope and others read: one line
 * for each stack.
 */
#ifndef PROFILE_FOLDED_WRITER_H
#define PROFILE_FOLDED_WRITER_H

#include <stdio.h>
#include "profile/profile.h"

/*
 * Write "OUTERMOST;...;INNERMOST VALUE" for each stack. The value is in microseconds for
 * PROFILE_WAITS, in words for PROFILE_WORDS, and otherwise a number of samples. Names of kernel
 * functions get the suffix "_[k]". A semicolon in a name becomes a colon.
 */
void folded_write(const struct profile *profile, FILE *to);

/* Write only the functions of STACK, without a value. */
void folded_write_stack(const struct named_stack *stack, FILE *to);

#endif

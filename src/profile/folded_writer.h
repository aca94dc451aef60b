/* SPDX-License-Identifier: MIT */
/* The folded form: a line for each stack, as flamegraph.pl, speedscope and others read it. */
#ifndef PROFILE_FOLDED_WRITER_H
#define PROFILE_FOLDED_WRITER_H

#include <stdio.h>
#include "profile/profile.h"

/*
 * Write "OUTERMOST;...;INNERMOST VALUE" for each stack. The value is in samples, in microseconds
 * for PROFILE_WAITS, in words for PROFILE_WORDS. Functions of the kernel end with "_[k]". A
 * semicolon in a name becomes a colon.
 */
void folded_write(const struct profile *profile, FILE *to);

/* Write the functions only, without a value. */
void folded_write_stack(const struct named_stack *stack, FILE *to);

#endif

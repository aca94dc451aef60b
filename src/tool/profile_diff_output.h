/* SPDX-License-Identifier: MIT */
/* Output of `profile --diff`: two profiles compared. */
#ifndef TOOL_PROFILE_DIFF_OUTPUT_H
#define TOOL_PROFILE_DIFF_OUTPUT_H

#include "profile/profile_diff.h"

/*
 * Print the functions and stacks whose shares differ most. The caller must have folded the
 * recursion of both profiles.
 */
void profile_diff_print_table(const struct profile_diff *diff);
void profile_diff_print_json(const struct profile_diff *diff);
/* Print "STACK OLD NEW" for each stack, as difffolded.pl writes it and flamegraph.pl reads it. */
void profile_diff_print_folded(const struct profile_diff *diff);

#endif

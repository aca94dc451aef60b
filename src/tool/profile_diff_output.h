/* SPDX-License-Identifier: MIT */
/* Two profiles that are compared, on standard output, for `profile --diff`. */
#ifndef TOOL_PROFILE_DIFF_OUTPUT_H
#define TOOL_PROFILE_DIFF_OUTPUT_H

#include "profile/profile_diff.h"

/* The functions and stacks whose shares differ most. The recursion of the profiles should be folded. */
void profile_diff_print_table(const struct profile_diff *diff);
void profile_diff_print_json(const struct profile_diff *diff);
/* "STACK OLD NEW" for each stack, as difffolded.pl writes it and flamegraph.pl reads it. */
void profile_diff_print_folded(const struct profile_diff *diff);

#endif

/* SPDX-License-Identifier: MIT */
/* A profile on standard output, for `profile`. */
#ifndef TOOL_PROFILE_OUTPUT_H
#define TOOL_PROFILE_OUTPUT_H

#include "profile/profile.h"

/*
 * Print the functions and stacks with the largest values. This folds the recursion of PROFILE.
 * Returns 0, or -ENOMEM with a message.
 */
int profile_print_table(struct ocp_ctx *ctx, struct profile *profile);
int profile_print_json(struct ocp_ctx *ctx, const struct profile *profile);

/*
 * Print "the collector takes 20.3% of this program's CPU time (minor 12.1, major 8.2)", if that is
 * known.
 */
void profile_print_collector(const struct profile *profile);

/* Print the frames of a stack, innermost first; indent all but the first by INDENT. */
void profile_print_stack(const struct named_stack *stack, int indent);

enum { PROFILE_JSON_VERSION = 1 };

#endif

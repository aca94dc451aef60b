/* SPDX-License-Identifier: MIT */
/* A profile on standard output, for `profile`. */
#ifndef TOOL_PROFILE_OUTPUT_H
#define TOOL_PROFILE_OUTPUT_H

#include "profile/profile.h"

/*
 * The functions and stacks to which most belongs. The recursion of PROFILE is folded then. Returns 0,
 * or -ENOMEM with a message.
 */
int profile_print_table(struct ocp_ctx *ctx, struct profile *profile);
int profile_print_json(struct ocp_ctx *ctx, const struct profile *profile);

/* "the collector takes 20.3% of this program's CPU time (minor 12.1, major 8.2)", if that is known. */
void profile_print_collector(const struct profile *profile);

/* The frames of a stack, the innermost first; those after the first one are indented. */
void profile_print_stack(const struct named_stack *stack, int indent);

enum { PROFILE_JSON_VERSION = 1 };

#endif

/* SPDX-License-Identifier: MIT */
/* A profile, or two profiles compared, on standard output, for `profile`. */
#ifndef TOOL_PROFILE_OUTPUT_H
#define TOOL_PROFILE_OUTPUT_H

#include "profile/profile_diff.h"

struct profile_table {
	enum profile_sites sites; /* which functions the values belong to */
	bool is_unfolded;	  /* do not fold the functions of libraries */
};

/*
 * Print the functions and stacks with the largest values. This folds the stacks of PROFILE
 * (profile/profile_fold.h). Returns 0, or -ENOMEM with a message.
 */
int profile_print_table(struct ocp_ctx *ctx, struct profile *profile,
			const struct profile_table *table);
int profile_print_json(struct ocp_ctx *ctx, const struct profile *profile);

struct json_object;
/*
 * If PROFILE is one of waits, add to ROOT what they were for, and how long threads were ready
 * without a CPU.
 */
void profile_json_waits(struct json_object *root, const struct profile *profile);

/*
 * Print "the collector takes 20.3% of this program's CPU time (minor 12.1, major 8.2)", if that is
 * known.
 */
void profile_print_collector(const struct profile *profile);

/*
 * Print the functions and stacks whose shares differ most. The caller must have folded the
 * recursive calls in the stacks of both profiles. LIBRARIES names the libraries that the caller has
 * folded; "": none.
 */
void profile_diff_print_table(const struct profile_diff *diff, const char *libraries);
void profile_diff_print_json(const struct profile_diff *diff);
/* Print "STACK OLD NEW" for each stack, as difffolded.pl writes it and flamegraph.pl reads it. */
void profile_diff_print_folded(const struct profile_diff *diff);

#endif

/* SPDX-License-Identifier: MIT */
/* The comparison of two profiles of the same kind, by function and by stack. */
#ifndef PROFILE_PROFILE_DIFF_H
#define PROFILE_PROFILE_DIFF_H

#include <stdbool.h>
#include "profile/profile.h"

/* The value of one stack or function in each of the two profiles. The old value is not scaled. */
struct profile_change {
	uint64_t old_value, new_value;
};

struct profile_diff_stack {
	const struct named_stack *stack; /* the stack in one of the two profiles */
	struct profile_change change;
	/*
	 * share of the new profile's sum minus share of the old profile's sum, in percentage points
	 */
	double points;
};

struct profile_diff_function {
	const struct named_frame *frame;
	struct profile_change self, total;
	double points, total_points;
};

struct profile_diff {
	const struct profile *old_profile, *new_profile;
	/*
	 * The factor by which old values are multiplied to be comparable with new values: the new
	 * divided by the old duration or, if a duration is not known, the sum of the new values
	 * divided by the sum of the old values.
	 */
	double scale;
	bool has_times;
	struct profile_diff_stack *stacks; /* the largest difference first */
	size_t n_stacks;
	struct profile_diff_function *functions; /* the largest difference of `self` first */
	size_t n_functions;
};

/* Compare two profiles, which must outlive DIFF and must not change. */
int profile_diff_make(struct ocp_ctx *ctx, const struct profile *old_profile,
		      const struct profile *new_profile, struct profile_diff *diff);
void profile_diff_free(struct profile_diff *diff);

/* Return the new value minus the old value times `scale`. */
double profile_change_value(const struct profile_diff *diff, const struct profile_change *change);

#endif

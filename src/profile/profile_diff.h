/* SPDX-License-Identifier: MIT */
/* Two profiles of one kind, compared by function and by stack. */
#ifndef PROFILE_PROFILE_DIFF_H
#define PROFILE_PROFILE_DIFF_H

#include <stdbool.h>
#include "profile/profile.h"

/* What belongs to something in the old profile, in its own values, and in the new one. */
struct profile_change {
	uint64_t old_value, new_value;
};

struct profile_diff_stack {
	const struct named_stack *stack; /* of one of the profiles */
	struct profile_change change;
	double points; /* the new share less the old one, in per cent of all */
};

struct profile_diff_function {
	const struct named_frame *frame;
	struct profile_change self, total;
	double points, total_points;
};

struct profile_diff {
	const struct profile *old_profile, *new_profile;
	/*
	 * Old values times `scale` are comparable with new ones: they belong to the same time, or, if
	 * the time of a profile is not known, to the same sum of all values.
	 */
	double scale;
	bool has_times;
	struct profile_diff_stack *stacks; /* the largest difference first */
	size_t n_stacks;
	struct profile_diff_function *functions; /* the largest difference of `self` first */
	size_t n_functions;
};

/* The profiles exist as long as the difference, and do not change. */
int profile_diff_make(struct ocp_ctx *ctx, const struct profile *old_profile,
		      const struct profile *new_profile, struct profile_diff *diff);
void profile_diff_free(struct profile_diff *diff);

/* The new value less the old one, both of the time of the new profile. */
double profile_change_value(const struct profile_diff *diff, const struct profile_change *change);

#endif

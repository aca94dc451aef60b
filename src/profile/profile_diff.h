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
	/*
	 * The number of samples of equal value that give shares as exact as those of the profile;
	 * 0: not known.
	 */
	double old_samples, new_samples;
	struct profile_diff_stack *stacks; /* the largest difference first */
	size_t n_stacks;
	struct profile_diff_function *functions; /* the largest difference of `self` first */
	size_t n_functions;
};

/* Compare two profiles, which must outlive DIFF and must not change. */
int profile_diff_make(struct ocp_ctx *ctx, const struct profile *old_profile,
		      const struct profile *new_profile, struct profile_diff *diff);
void profile_diff_free(struct profile_diff *diff);

/*
 * Return the sampling error of a difference of two shares, in points: half of the interval of 95%
 * of Agresti and Caffo. With p = (n s + 1) / (n + 2) for the share s of each profile and its number
 * of samples n, it is 1.96 sqrt(p(1 - p)/(n + 2) + p'(1 - p')/(n' + 2)). NAN if a number of samples
 * is not known.
 */
double profile_diff_error(const struct profile_diff *diff, const struct profile_change *change);
/* Return true if the difference of the shares of CHANGE is known to be within its error. */
bool profile_diff_is_within_error(const struct profile_diff *diff,
				  const struct profile_change *change);
/*
 * Count the functions whose share, of the function itself, has grown by more than ABOVE points
 * beyond its sampling error. Set the first elements of WORST, which has room for MAX, to those that
 * have grown most beyond their error, the worst first.
 */
size_t profile_diff_grown(const struct profile_diff *diff, double above,
			  const struct profile_diff_function **worst, size_t max);

/* Return the new value minus the old value times `scale`. */
double profile_change_value(const struct profile_diff *diff, const struct profile_change *change);

#endif

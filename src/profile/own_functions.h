/* SPDX-License-Identifier: MIT */
/*
 * The program's own functions (see unwind/own_frames.h) in a profile, with the samples on their
 * accounts.
 */
#ifndef PROFILE_OWN_FUNCTIONS_H
#define PROFILE_OWN_FUNCTIONS_H

#include "profile/profile.h"

struct own_function {
	const struct named_frame *frame; /* one of the frames of the function */
	uint64_t samples, value;
};

struct own_functions {
	struct own_function *list; /* the largest value first */
	size_t n;
	/* the sums of the stacks without an own function */
	uint64_t other_samples, other_value;
};

/*
 * Sum the stacks of PROFILE by their innermost own function. Returns 0 or -ENOMEM with a message.
 * The caller frees FUNCTIONS with own_functions_free(), also after an error.
 */
int own_functions_find(struct ocp_ctx *ctx, const struct profile *profile,
		       struct own_functions *functions);
void own_functions_free(struct own_functions *functions);

#endif

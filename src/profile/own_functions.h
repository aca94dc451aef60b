/* SPDX-License-Identifier: MIT */
/*
 * The program's own functions in a profile: on whose account a sample is, if the standard library,
 * the runtime, C code and libraries for concurrency only work for others.
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
 * Return true if FRAME is of an own function: OCaml code outside of the standard library and of
 * libraries for concurrency.
 */
bool is_own_function(const struct named_frame *frame);

/*
 * Sum the stacks of PROFILE by their innermost own function. Returns 0 or -ENOMEM with a message.
 * The caller frees FUNCTIONS with own_functions_free(), also after an error.
 */
int own_functions_find(struct ocp_ctx *ctx, const struct profile *profile,
		       struct own_functions *functions);
void own_functions_free(struct own_functions *functions);

#endif

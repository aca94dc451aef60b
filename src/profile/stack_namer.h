/* SPDX-License-Identifier: MIT */
/* Names the frames of stored stacks, one stack after the other. */
#ifndef PROFILE_STACK_NAMER_H
#define PROFILE_STACK_NAMER_H

#include <stddef.h>
#include "unwind/frame_names.h"
#include "unwind/stack_store.h"

struct stack_namer {
	struct ocp_ctx *ctx;
	struct frame_names *names;
	/*
	 * The frames of the stack that was named last, outermost first, with inlined and kernel
	 * frames. The user of the namer frees the array at the end; the frames belong to `names`.
	 */
	const struct named_frame **frames;
	size_t n;
};

/* Name the frames of STACK. Returns 0, or a negative errno with a message. */
int stack_namer_name(struct stack_namer *namer, const struct stored_stack *stack);

#endif

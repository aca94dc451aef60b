// SPDX-License-Identifier: MIT
#include "profile/stack_namer.h"

#include "base/array.h"

static int push_stack_frame(struct stack_namer *namer, const struct named_frame *frame)
{
	const struct named_frame **new = array_add(namer->frames, namer->n);

	if (!new)
		return ctx_no_memory(namer->ctx);
	*new = frame;
	return 0;
}

int stack_namer_name(struct stack_namer *namer, const struct stored_stack *stack)
{
	const struct named_frame *frames;
	size_t n;
	int err = 0;

	namer->n = 0;
	if (stack->end != WALK_COMPLETE) {
		stack_walker_tell_end(frame_names_walker(namer->names), stack);
		err = push_stack_frame(namer, frame_names_of_end(stack->end));
	}
	for (uint32_t i = stack->n; i-- > 0 && !err;) {
		err = frame_names_find(namer->names, stack->frames[i], &frames, &n);
		for (size_t j = err ? 0 : n; j-- > 0 && !err;)
			err = push_stack_frame(namer, &frames[j]);
	}
	for (uint32_t i = stack->n_kernel; i-- > 0 && !err;) {
		err = frame_names_find_kernel(namer->names, stack->kernel[i], &frames);
		if (!err)
			err = push_stack_frame(namer, frames);
	}
	return err;
}

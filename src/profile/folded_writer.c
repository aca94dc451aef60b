// SPDX-License-Identifier: MIT
#include "profile/folded_writer.h"

#include <inttypes.h>

static void write_name(const struct named_frame *frame, FILE *to)
{
	for (const char *at = frame->function; *at; at++)
		putc(*at == ';' ? ':' : *at, to);
	if (frame->kind == FRAME_KERNEL)
		fputs("_[k]", to);
}

void folded_write_stack(const struct named_stack *stack, FILE *to)
{
	for (size_t i = 0; i < stack->n; i++) {
		if (i)
			putc(';', to);
		write_name(stack->frames[i], to);
	}
}

void folded_write(const struct profile *profile, FILE *to)
{
	for (size_t i = 0; i < profile->n; i++) {
		const struct named_stack *stack = &profile->stacks[i];

		folded_write_stack(stack, to);
		fprintf(to, " %" PRIu64 "\n",
			profile->kind == PROFILE_WAITS	 ? stack->value / 1000
			: profile->kind == PROFILE_WORDS ? stack->value
							 : stack->samples);
	}
}

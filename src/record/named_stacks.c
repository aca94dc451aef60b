// SPDX-License-Identifier: MIT
#include "record/named_stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/strbuf.h"

/* Replace *TEXT by its copy that is UTF-8. Return false if out of memory. */
static bool make_utf8(char **text)
{
	char *copy = copy_utf8(*text);

	free(*text);
	*text = copy;
	return copy != NULL;
}

bool named_stacks_has(enum trace_category category)
{
	return category == TRACE_WAIT || category == TRACE_SAMPLE;
}

int named_stacks_find(struct ocp_ctx *ctx, const struct trace_source *source,
		      struct named_stacks *stacks, const struct trace_event *event, size_t *number)
{
	const uint64_t key[] = { event->category, event->stack };
	struct named_stack_text *stack;
	bool is_new;
	int err;

	if (!numbering_of(&stacks->numbers, key, sizeof(key), number, &is_new))
		return ctx_no_memory(ctx);
	if (!is_new)
		return 0;
	stack = array_add(stacks->stacks, stacks->n);
	if (!stack)
		return ctx_no_memory(ctx);
	*stack = (struct named_stack_text){ 0 };
	err = moments_describe(source->moments, event->category, event->stack, &stack->name,
			       &stack->text);
	if (!err && (!make_utf8(&stack->name) || !make_utf8(&stack->text)))
		err = -ENOMEM;
	return err == -ENOMEM ? ctx_no_memory(ctx) : 0;
}

void named_stacks_free(struct named_stacks *stacks)
{
	for (size_t i = 0; i < stacks->n; i++) {
		free(stacks->stacks[i].name);
		free(stacks->stacks[i].text);
	}
	free(stacks->stacks);
	numbering_free(&stacks->numbers);
	*stacks = (struct named_stacks){ 0 };
}

// SPDX-License-Identifier: MIT
#include "profile/own_functions.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "unwind/own_frames.h"

static int by_own_name(const void *a, const void *b)
{
	const struct own_function *x = a, *y = b;

	return profile_compare_frames(x->frame, y->frame);
}

static int by_own_value(const void *a, const void *b)
{
	const struct own_function *x = a, *y = b;

	return x->value != y->value ? COMPARE(y->value, x->value) : by_own_name(a, b);
}

/* Merge the elements of FUNCTIONS that have the same name, and sort them by value. */
static void merge_own_functions(struct own_functions *functions)
{
	struct own_function *list = functions->list;
	size_t n = 0;

	if (functions->n)
		qsort(list, functions->n, sizeof(*list), by_own_name);
	for (size_t i = 0; i < functions->n; i++) {
		if (n && by_own_name(&list[n - 1], &list[i]) == 0) {
			list[n - 1].samples += list[i].samples;
			list[n - 1].value += list[i].value;
		} else {
			list[n++] = list[i];
		}
	}
	functions->n = n;
	if (n)
		qsort(list, n, sizeof(*list), by_own_value);
}

int own_functions_find(struct ocp_ctx *ctx, const struct profile *profile,
		       struct own_functions *functions)
{
	*functions = (struct own_functions){ 0 };
	for (size_t i = 0; i < profile->n; i++) {
		const struct named_stack *stack = &profile->stacks[i];
		const size_t own = find_own_function(stack->frames, stack->n);
		struct own_function *new = NULL;

		if (own == stack->n) {
			functions->other_samples += stack->samples;
			functions->other_value += stack->value;
			continue;
		}
		new = array_add(functions->list, functions->n);
		if (!new)
			return ctx_no_memory(ctx);
		*new = (struct own_function){ stack->frames[own], stack->samples, stack->value };
	}
	merge_own_functions(functions);
	return 0;
}

void own_functions_free(struct own_functions *functions)
{
	free(functions->list);
	*functions = (struct own_functions){ 0 };
}

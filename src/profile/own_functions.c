// SPDX-License-Identifier: MIT
#include "profile/own_functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

/*
 * Modules of OCaml's distribution and of libraries for concurrency. Their functions run code of
 * others, or wait for others. A name that ends with '*' stands for all modules that begin so.
 *
 * Modules whose names are common in programs are missing, such as Event and Str: a function of the
 * program must not be taken for one of a library.
 */
static const char *const library_modules[] = {
	"Camlinternal*",	   /* formats, laziness, objects: code that the compiler calls */
	"Std_exit",		   /* the end of each program: runs the functions of at_exit */
	"Unix",			   /* system calls, which wait */
	"UnixLabels",	 "Thread", /* creates threads: outermost in each thread */
	"Mutex",		   /* waits for other threads */
	"Condition",	 "Lwt",	   /* runs callbacks of the program */
	"Lwt_*",	 "Async",  /* the same for Async; Async_kernel, Async_unix */
	"Async_*",	 "Eio",	   /* the same for Eio; Eio_linux, Eio_posix, Eio_utils */
	"Eio_*",	 "Miou",   /* the same for Miou */
	"Miou_*",	 "Domainslib", /* runs tasks of the program in its domains */
};

/* Return true if the module at the start of FUNCTION is NAME, which may end with '*'. */
static bool is_of_module(const char *function, const char *name)
{
	const size_t bytes = strlen(name);

	if (name[bytes - 1] == '*')
		return strncmp(function, name, bytes - 1) == 0;
	return strncmp(function, name, bytes) == 0 && (!function[bytes] || function[bytes] == '.');
}

bool is_own_function(const struct named_frame *frame)
{
	if (frame->kind != FRAME_OCAML || frame->is_stdlib)
		return false;
	for (size_t i = 0; i < sizeof(library_modules) / sizeof(*library_modules); i++)
		if (is_of_module(frame->function, library_modules[i]))
			return false;
	return true;
}

/* Return the innermost own function of STACK, or NULL if STACK contains no own function. */
static const struct named_frame *own_function_of(const struct named_stack *stack)
{
	for (size_t i = stack->n; i-- > 0;)
		if (is_own_function(stack->frames[i]))
			return stack->frames[i];
	return NULL;
}

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
		const struct named_frame *frame = own_function_of(stack);
		struct own_function *new = NULL;

		if (!frame) {
			functions->other_samples += stack->samples;
			functions->other_value += stack->value;
			continue;
		}
		new = array_add(functions->list, functions->n);
		if (!new)
			return ctx_no_memory(ctx);
		*new = (struct own_function){ frame, stack->samples, stack->value };
	}
	merge_own_functions(functions);
	return 0;
}

void own_functions_free(struct own_functions *functions)
{
	free(functions->list);
	*functions = (struct own_functions){ 0 };
}

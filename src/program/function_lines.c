// SPDX-License-Identifier: MIT
#include "program/function_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "code/line_places.h"
#include "elf/lines.h"
#include "program/item.h"

/* A function whose code has the line, and the place where the function begins. */
struct line_function {
	const struct function *function;
	int line, column; /* 0 for the top level of a unit, which contains all others */
};

enum { MAX_CANDIDATES_SHOWN = 5 };

static int compare_function_va(const void *a, const void *b)
{
	const struct line_function *x = a, *y = b;

	return COMPARE(x->function->va, y->function->va);
}

/*
 * Set LIST to the functions, sorted by address, that contain PLACES[0..N) and into which the place
 * was not inlined. Returns their number.
 */
static size_t functions_with_line(const struct line_place *places, size_t n,
				  struct line_function *list)
{
	size_t n_list = 0, n_different = 0;

	for (size_t i = 0; i < n; i++)
		if (!places[i].is_inlined)
			list[n_list++].function = places[i].function;
	if (n_list)
		qsort(list, n_list, sizeof(*list), compare_function_va);
	for (size_t i = 0; i < n_list; i++)
		if (!i || list[n_different - 1].function != list[i].function)
			list[n_different++] = list[i];
	return n_different;
}

/* Return the first line of PLACES that FUNCTION has. */
static int first_line_of(const struct line_places *places, const struct function *function)
{
	for (size_t i = 0; i < places->n; i++)
		if (places->list[i].function == function)
			return places->list[i].line;
	return 0;
}

/*
 * Find where the functions begin. The code of a method can begin without a line; take its first
 * line then.
 */
static int find_beginnings(struct ocp_ctx *ctx, const struct ocp_program *prog,
			   const struct line_places *places, struct line_function *list, size_t n)
{
	struct source_line *lines = calloc(n + 1, sizeof(*lines));
	char *names = NULL;
	int err;

	if (!lines)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < n; i++)
		lines[i].va = list[i].function->va;
	err = lines_find(ctx, prog->fd, elf_file_name(prog->elf), LINES_FIRST, lines, n, &names);
	for (size_t i = 0; !err && i < n; i++) {
		if (list[i].function->is_initialiser)
			continue;
		list[i].line =
			lines[i].line ? lines[i].line : first_line_of(places, list[i].function);
		list[i].column = lines[i].column;
	}
	free(names);
	free(lines);
	return err;
}

/* Keep the functions that begin last. Returns their number. */
static size_t keep_innermost(struct line_function *list, size_t n)
{
	size_t n_left = 0;
	int last = 0;

	for (size_t i = 0; i < n; i++)
		if (list[i].line > last)
			last = list[i].line;
	for (size_t i = 0; i < n; i++)
		if (list[i].line == last)
			list[n_left++] = list[i];
	return n_left;
}

/* Return true if A and B are copies of one function. */
static bool are_copies(const struct line_function *a, const struct line_function *b)
{
	return a->column == b->column &&
	       strcmp(a->function->full_name, b->function->full_name) == 0;
}

/* Record the error that the functions LIST[0..N) begin at the line of TEXT. */
static int ambiguous(struct ocp_ctx *ctx, const char *text, const struct line_function *list,
		     size_t n)
{
	char names[MAX_CANDIDATES_SHOWN * 256] = "", name[FUNCTION_TEXT_BYTES];
	const size_t n_shown = n < MAX_CANDIDATES_SHOWN ? n : MAX_CANDIDATES_SHOWN;
	size_t used = 0;

	ctx_set_error(ctx, "'%s': %zu functions begin at line %d", text, n, list[0].line);
	for (size_t i = 0; i < n_shown && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s'%s%s'",
					 i == 0		   ? ""
					 : i + 1 < n_shown ? ", "
							   : " or ",
					 ITEM_FUNCTION_PREFIX,
					 function_text(list[i].function, name));
	ctx_hint(ctx, "name one of them: %s", names);
	return -EINVAL;
}

/* Choose among the functions that contain ITS[0..N), those of PLACES that have the line. */
static int choose(struct ocp_ctx *ctx, const struct ocp_program *prog, const char *text,
		  const struct line_places *places, const struct line_place *its, size_t n,
		  const struct function ***found, size_t *n_found)
{
	struct line_function *list = calloc(n + 1, sizeof(*list));
	size_t n_list = list ? functions_with_line(its, n, list) : 0;
	int err = list ? find_beginnings(ctx, prog, places, list, n_list) : ctx_no_memory(ctx);

	n_list = keep_innermost(list, err ? 0 : n_list);
	if (!err && !n_list)
		err = ctx_error(ctx, -ENOENT,
				"'%s': the code of this line is only in other functions, into "
				"which it was inlined",
				text);
	for (size_t i = 1; !err && i < n_list; i++)
		if (!are_copies(&list[0], &list[i]))
			err = ambiguous(ctx, text, list, n_list);
	*found = err ? NULL : calloc(n_list, sizeof(struct function *));
	if (!err && !*found)
		err = ctx_no_memory(ctx);
	for (size_t i = 0; !err && i < n_list; i++)
		(*found)[(*n_found)++] = list[i].function;
	free(list);
	return err;
}

int function_lines_find(struct ocp_ctx *ctx, const struct ocp_program *prog,
			const struct functions *functions, const char *text,
			const struct function ***found, size_t *n)
{
	const struct line_place *its;
	struct line_places places;
	size_t n_its;
	int line, err;
	char *file = strndup(item_body(text),
			     item_line_file(text, &line) - (size_t)(item_body(text) - text));

	*found = NULL;
	*n = 0;
	if (!file)
		return ctx_no_memory(ctx);
	err = line_places_read(ctx, prog->elf, prog->fd, functions, file, LINE_FILE, NULL, false,
			       &places);
	free(file);
	if (err)
		return err;
	its = line_places_find(&places, line, &n_its);
	if (places.other)
		err = ctx_error(ctx, -EINVAL, "'%s': several files have this name: %s, %s", text,
				places.file, places.other);
	else if (its)
		err = choose(ctx, prog, text, &places, its, n_its, found, n);
	line_places_free(&places);
	return err;
}

// SPDX-License-Identifier: MIT
/*
 * Read the rows of the line tables of all units once, and keep the rows that may belong to the
 * requested source. Several sources can have the requested name: choose one, and drop the rows of
 * the others. Then decode each function that has rows, to find the rows that are places.
 */
#include "code/line_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sanitize.h"
#include "base/search.h"
#include "code/frametable.h"
#include "code/line_sources.h"
#include "elf/lines.h"

enum { MAX_PLACES = 1 << 20 }; /* rows of the source */

struct gatherer {
	struct ocp_ctx *ctx;
	const struct functions *functions;
	const struct line_spans *spans;
	struct line_sources sources;
	struct line_place *list;
	uint32_t *source; /* for each element of `list`, the index of its source */
	size_t n;
	size_t n_ended; /* places whose `end_va` is known */
	uint64_t last_va;
	bool has_rows;
	/*
	 * The function of the last row, or NULL. its_file and its_line: the source place where that
	 * function begins, or NULL and 0. last_file and last_line: the source place of the last
	 * row.
	 */
	const struct function *function;
	const char *its_file, *last_file;
	size_t unit;
	int its_line, last_line;
};

/*
 * Return true if the frame tables, which stay when a file is stripped, have places in the source.
 */
static bool was_compiled_with_g(struct ocp_ctx *ctx, struct elf_file *elf)
{
	struct frametable *table;
	const struct frame_descr *list;
	size_t n, i = 0;

	if (frametable_read(ctx, elf, &table))
		return false;
	list = frametable_list(table, &n);
	while (i < n && !list[i].debuginfo_va)
		i++;
	frametable_free(table);
	return i < n;
}

int line_places_no_tables(struct ocp_ctx *ctx, struct elf_file *elf, const char *who)
{
	if (!was_compiled_with_g(ctx, elf))
		return ctx_error(ctx, -ENODATA,
				 "%s has no debug information of OCaml code (ocamlopt -g)", who);
	ctx_set_error(ctx, "%s was compiled with -g, then stripped: it has no line table", who);
	ctx_hint(ctx,
		 "run the program that is not stripped; functions, fn:NAME, need no line table");
	return -ENODATA;
}

void line_places_free(struct line_places *places)
{
	free(places->list);
	free(places->file);
	free(places->other);
	free(places->nearest);
	*places = (struct line_places){ 0 };
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int make_room_for_place(struct gatherer *g)
{
	struct line_place *list = array_grow(g->list, g->n, sizeof(*list));
	uint32_t *sources;

	if (!list)
		return ctx_no_memory(g->ctx);
	g->list = list;
	sources = array_grow(g->source, g->n, sizeof(*sources));
	if (!sources)
		return ctx_no_memory(g->ctx);
	g->source = sources;
	return 0;
}

static int add_line_place(struct gatherer *g, const struct line_row *row, size_t source,
			  bool goes_on)
{
	if (g->n == MAX_PLACES)
		return ctx_error(g->ctx, -EBADMSG, "'%s': its lines begin at more than %d places",
				 g->sources.wanted, MAX_PLACES);
	if (make_room_for_place(g))
		return -ENOMEM;
	g->source[g->n] = (uint32_t)source;
	g->list[g->n++] = (struct line_place){
		.va = row->va,
		.end_va = UINT64_MAX,
		.goes_on = goes_on,
		.function = g->function,
		.line = row->line,
		.column = row->column,
		.is_inlined = g->its_line && (row->line < g->its_line || g->its_file != row->file),
	};
	return 0;
}

/*
 * Make the function that contains ROW the current function. If it is an initialiser, its_file and
 * its_line stay unknown: the code of a top level may begin with the code of an inlined function.
 */
static void enter_function(struct gatherer *g, const struct line_row *row)
{
	const struct function *function = functions_at(g->functions, row->va);
	const bool is_ocaml = function && function->language == FUNCTION_OCAML;

	g->unit = row->unit;
	g->function = is_ocaml ? function : NULL;
	g->last_file = g->its_file = NULL;
	g->last_line = g->its_line = 0;
	if (is_ocaml && function->va == row->va && !function->is_initialiser) {
		g->its_file = row->file;
		g->its_line = row->line;
	}
}

/* Set end_va of the places before ROW to the start of ROW. */
static void end_rows(struct gatherer *g, const struct line_row *row)
{
	if (row->va == g->last_va)
		return;
	for (; g->n_ended < g->n; g->n_ended++)
		if (g->list[g->n_ended].va < row->va)
			g->list[g->n_ended].end_va = row->va;
	g->last_va = row->va;
}

static bool is_in_span(const struct line_spans *spans, const struct line_row *row)
{
	size_t next = SEARCH(i, spans ? spans->n : 0, spans->list[i].line < row->line);

	for (; spans && next < spans->n && spans->list[next].line == row->line; next++)
		if (row->column >= spans->list[next].from && row->column < spans->list[next].to)
			return true;
	return false;
}

static int take_line_row(void *data, const struct line_row *row)
{
	struct gatherer *g = data;
	ptrdiff_t source;
	bool goes_on;
	int err;

	end_rows(g, row);
	if (!g->function || g->unit != row->unit || row->va - g->function->va >= g->function->bytes)
		enter_function(g, row);
	if (!g->function)
		return 0;
	g->has_rows = true;
	goes_on = row->line == g->last_line && row->file == g->last_file;
	g->last_line = row->line;
	g->last_file = row->file;
	if (!row->is_statement || row->line == 0)
		return 0;
	err = line_sources_of(g->ctx, &g->sources, row, &source);
	if (!err && source >= 0 && is_in_span(g->spans, row)) {
		g->last_line = 0;
		return 0;
	}
	return err || source < 0 ? err : add_line_place(g, row, (size_t)source, goes_on);
}

/* ---- places --------------------------------------------------------------------------------- */

static int compare_addresses(const void *a, const void *b)
{
	const struct line_place *x = a, *y = b;

	if (x->va != y->va)
		return COMPARE(x->va, y->va);
	if (x->line != y->line)
		return COMPARE(x->line, y->line);
	return x->goes_on - y->goes_on;
}

static bool are_one(const struct line_place *a, const struct line_place *b)
{
	return a->va == b->va && a->line == b->line;
}

static int compare_lines(const void *a, const void *b)
{
	const struct line_place *x = a, *y = b;

	if (x->line != y->line)
		return COMPARE(x->line, y->line);
	return COMPARE(x->va, y->va);
}

/* Keep the places of the chosen source, sorted by address, each once. */
static void keep_chosen(struct gatherer *g, const struct line_choice *choice)
{
	size_t n = 0, n_different = 0;

	for (size_t i = 0; i < g->n; i++)
		if (line_sources_takes(&g->sources, choice, g->source[i]))
			g->list[n++] = g->list[i];
	if (n)
		qsort(g->list, n, sizeof(*g->list), compare_addresses);
	for (size_t i = 0; i < n; i++)
		if (!i || !are_one(&g->list[n_different - 1], &g->list[i]))
			g->list[n_different++] = g->list[i];
	g->n = n_different;
}

/*
 * Reduce the rows to the places of each function. The rows must be sorted by address; the places
 * are sorted by line.
 */
static int reduce(struct gatherer *g, struct code_file *file)
{
	size_t n = 0, end;

	for (size_t first = 0; first < g->n; first = end) {
		const struct function *function = g->list[first].function;
		ptrdiff_t n_left;

		for (end = first; end < g->n && g->list[end].function == function; end++)
			;
		n_left = line_passes_reduce(file, function, g->list + first, end - first);
		if (n_left < 0)
			return ctx_no_memory(g->ctx);
		memmove(g->list + n, g->list + first, (size_t)n_left * sizeof(*g->list));
		n += (size_t)n_left;
	}
	g->n = n;
	if (n)
		qsort(g->list, n, sizeof(*g->list), compare_lines);
	return 0;
}

static int name_sources(struct gatherer *g, const struct line_choice *choice,
			struct line_places *out)
{
	const struct line_source *list = g->sources.list;

	out->file = choice->chosen < 0 ? NULL : strdup(list[choice->chosen].path);
	out->other = choice->other < 0 ? NULL : strdup(list[choice->other].path);
	if (out->file && out->other && strcmp(out->file, out->other) > 0) {
		char *first = out->other;

		out->other = out->file;
		out->file = first;
	}
	if (!out->file != (choice->chosen < 0) || !out->other != (choice->other < 0))
		return ctx_no_memory(g->ctx);
	if (out->file)
		make_one_line(out->file);
	if (out->other)
		make_one_line(out->other);
	if (!out->file) {
		out->nearest = g->sources.nearest;
		g->sources.nearest = NULL;
	}
	out->lacks_inlined = choice->has_inlined && !choice->takes_inlined;
	return 0;
}

static int find_line_places(struct gatherer *g, struct elf_file *elf, int fd,
			    struct line_places *out)
{
	struct code_file *file = NULL;
	struct line_choice choice;
	const uint64_t *entries;
	size_t n_entries;
	int err = lines_each(g->ctx, fd, elf_file_name(elf), take_line_row, g);

	if (err)
		return err;
	line_sources_choose(&g->sources, &choice);
	keep_chosen(g, &choice);
	entries = functions_entries(g->functions, &n_entries);
	err = code_file_open(g->ctx, elf, entries, n_entries, &file);
	if (!err)
		err = reduce(g, file);
	code_file_close(file);
	return err ? err : name_sources(g, &choice, out);
}

int line_places_read(struct ocp_ctx *ctx, struct elf_file *elf, int fd,
		     const struct functions *functions, const char *file, enum line_match match,
		     const struct line_spans *spans, struct line_places *out)
{
	struct gatherer g = { .ctx = ctx, .functions = functions, .spans = spans };
	int err = line_sources_open(ctx, file, match, &g.sources);

	*out = (struct line_places){ 0 };
	if (!err)
		err = find_line_places(&g, elf, fd, out);
	line_sources_close(&g.sources);
	free(g.source);
	out->has_rows = g.has_rows;
	out->list = g.list;
	out->n = g.n;
	if (err)
		line_places_free(out);
	return err;
}

/* ---- searching ------------------------------------------------------------------------------ */

/* Return the index of the first place whose line is LINE or a later line. */
static size_t first_from(const struct line_places *places, int line)
{
	return SEARCH(i, places->n, places->list[i].line < line);
}

const struct line_place *line_places_find(const struct line_places *places, int line, size_t *n)
{
	const size_t first = first_from(places, line);

	for (*n = 0; first + *n < places->n && places->list[first + *n].line == line; ++*n)
		;
	return *n ? &places->list[first] : NULL;
}

void line_places_around(const struct line_places *places, int line, int *before, int *after)
{
	size_t at = first_from(places, line);

	*before = at ? places->list[at - 1].line : 0;
	while (at < places->n && places->list[at].line == line)
		at++;
	*after = at < places->n ? places->list[at].line : 0;
}

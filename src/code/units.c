// SPDX-License-Identifier: MIT
#include "code/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "code/frametable.h"
#include "code/ocaml_name.h"

/* Programs have some thousands of units. */
enum { MAX_UNITS = 1 << 17 };

/* ---- reading -------------------------------------------------------------------------------- */

int units_add(struct ocp_ctx *ctx, struct units *units, const char *symbol, uint64_t va)
{
	struct unit unit = { .start_va = va };
	struct unit *new;

	if (ocaml_name_is_mark(symbol, "code_end", &unit.symbol_bytes)) {
		unit.start_va = 0;
		unit.end_va = va;
	} else if (ocaml_name_is_mark(symbol, "frametable", &unit.symbol_bytes)) {
		unit.start_va = 0;
		unit.frametable_va = va;
	} else if (!ocaml_name_is_mark(symbol, "code_begin", &unit.symbol_bytes)) {
		return 0;
	}
	if (units->n == 3 * (size_t)MAX_UNITS)
		return ctx_error(ctx, -EBADMSG, "more than %d compilation units", MAX_UNITS);
	unit.symbol = strndup(symbol, unit.symbol_bytes);
	new = unit.symbol ? array_add(units->units, units->n) : NULL;
	if (!new) {
		free(unit.symbol);
		return ctx_no_memory(ctx);
	}
	*new = unit;
	return 1;
}

static int compare_unit_symbols(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;

	return strcmp(x->symbol, y->symbol);
}

static int compare_starts(const void *a, const void *b)
{
	const struct unit *x = *(const struct unit *const *)a, *y = *(const struct unit *const *)b;

	return COMPARE(x->start_va, y->start_va);
}

/*
 * Each element has one mark of a unit. Merge the elements of the same unit, which are neighbours
 * after sorting, into one.
 */
static void join_marks(struct units *units)
{
	size_t n = 0;

	for (size_t i = 0; i < units->n; i++) {
		struct unit *unit = &units->units[i], *before = n ? &units->units[n - 1] : NULL;

		if (!before || strcmp(before->symbol, unit->symbol) != 0) {
			units->units[n++] = *unit;
			continue;
		}
		before->start_va = before->start_va ? before->start_va : unit->start_va;
		before->end_va = before->end_va ? before->end_va : unit->end_va;
		if (!before->frametable_va)
			before->frametable_va = unit->frametable_va;
		free(unit->symbol);
	}
	units->n = n;
}

/* Compare UNIT with the symbol SYMBOL[0..BYTES), as strcmp(3) does. */
static int compare_symbol(const struct unit *unit, const char *symbol, size_t bytes)
{
	const int order = strncmp(unit->symbol, symbol, bytes);

	return order ? order : unit->symbol_bytes > bytes;
}

static const struct unit *find_unit(const struct units *units, const char *symbol, size_t bytes)
{
	const struct unit *list = units->units;
	const size_t at = SEARCH(i, units->n, compare_symbol(&list[i], symbol, bytes) < 0);

	return at < units->n && compare_symbol(&list[at], symbol, bytes) == 0 ? &list[at] : NULL;
}

static const struct unit *find_without(const struct units *units, const struct unit *unit,
				       const char *prefix, const char *instead)
{
	char symbol[OCAML_NAME_BYTES];
	const size_t n = strlen(prefix);

	if (strncmp(unit->symbol, prefix, n) != 0 ||
	    snprintf(symbol, sizeof(symbol), "%s%s", instead, unit->symbol + n) >=
		    (int)sizeof(symbol))
		return NULL;
	return find_unit(units, symbol, strlen(symbol));
}

/*
 * Return true if names must include the prefix of UNIT ("Stdlib.", "Dune__exe."), because the name
 * without the prefix is that of another unit. But if a unit of the program and a unit of Stdlib
 * have the same name without prefixes, the unit of the program needs no prefix.
 */
static bool needs_prefix(const struct units *units, const struct unit *unit)
{
	return find_without(units, unit, "camlStdlib__", "caml") ||
	       find_without(units, unit, "camlStdlib__", "camlDune__exe__") ||
	       find_without(units, unit, "camlDune__exe__", "caml");
}

int units_finish(struct ocp_ctx *ctx, struct units *units)
{
	if (units->n)
		qsort(units->units, units->n, sizeof(*units->units), compare_unit_symbols);
	join_marks(units);
	units->by_va = calloc(units->n + 1, sizeof(const struct unit *));
	if (!units->by_va)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < units->n; i++) {
		units->by_va[i] = &units->units[i];
		units->units[i].keeps_prefix = needs_prefix(units, &units->units[i]);
	}
	if (units->n)
		qsort(units->by_va, units->n, sizeof(const struct unit *), compare_starts);
	return 0;
}

void units_free(struct units *units)
{
	for (size_t i = 0; i < units->n; i++)
		free(units->units[i].symbol);
	free(units->units);
	free(units->by_va);
	*units = (struct units){ 0 };
}

/* ---- searching ------------------------------------------------------------------------------ */

const struct unit *units_of_symbol(const struct units *units, const char *symbol)
{
	const struct unit *longest = NULL, *unit;
	char of_structured[OCAML_NAME_BYTES];

	if (ocaml_name_unit(symbol, of_structured))
		return find_unit(units, of_structured, strlen(of_structured));
	for (const char *at = symbol; *at; at++)
		if ((at[0] == '.' || (at[0] == '_' && at[1] == '_')) &&
		    (unit = find_unit(units, symbol, (size_t)(at - symbol))))
			longest = unit;
	return longest;
}

const struct unit *units_at(const struct units *units, uint64_t va)
{
	const size_t next = SEARCH(i, units->n, units->by_va[i]->start_va <= va);

	return next && va < units->by_va[next - 1]->end_va ? units->by_va[next - 1] : NULL;
}

/* ---- source files of units ------------------------------------------------------------------- */

/*
 * The debug information of the calls in a function names the source file of the function. All
 * functions of a unit come from one source file, so a function without calls comes from the file of
 * its unit. (A #line directive can name another file. If the calls name several files, the file is
 * unknown.)
 */

/* The name of a source file in the frame tables, and a printable copy of the name. */
struct shown_file {
	const char *raw;
	char *text;
};

struct unit_files {
	const struct units *units;
	struct frametable *table; /* NULL: the file has no frame table */
	const char **of_tables;	  /* the source file of each frame table; NULL: not looked up yet */
	struct shown_file *shown;
	size_t n, last; /* last: the index of the file that was returned most recently */
};

/* Copy NAME without characters that are unsafe on a terminal. */
static char *copy_name(const char *name)
{
	char *copy = strdup(name);

	for (unsigned char *c = (unsigned char *)copy; c && *c; c++)
		if (*c < ' ' || *c >= 0x7f)
			*c = '?';
	return copy;
}

static const char *show(struct unit_files *files, const char *raw)
{
	struct shown_file *new;

	if (files->n && files->shown[files->last].raw == raw)
		return files->shown[files->last].text;
	for (files->last = 0; files->last < files->n; files->last++)
		if (files->shown[files->last].raw == raw)
			return files->shown[files->last].text;
	new = array_add(files->shown, files->n);
	if (!new) {
		files->last = 0;
		return NULL;
	}
	*new = (struct shown_file){ raw, copy_name(raw) };
	return new->text;
}

/*
 * Combine two file names, which should be equal; NULL is an unknown name. Return "" if they differ.
 */
static const char *join_file_names(const char *file, const char *other)
{
	return !file || !other || file == other || strcmp(file, other) == 0 ? (file ? file : other)
									    : "";
}

/* Return the file of the function that contains the call of DESCR; NULL if it is unknown. */
static const char *file_at(const struct frametable *table, const struct frame_descr *descr)
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	const size_t n = frametable_locations(table, descr, locations, FRAME_LOCATIONS_MAX);

	if (n == 0 || locations[n - 1].is_inlined || !*locations[n - 1].file)
		return NULL;
	return locations[n - 1].file;
}

/*
 * Return the source file of all calls in FUNCTION; NULL if it is unknown; "" if the calls come from
 * several files.
 */
static const char *file_of_calls(const struct frametable *table, const struct function *function)
{
	const char *file = NULL;
	size_t n;
	const struct frame_descr *list = frametable_list(table, &n);

	for (size_t i = frametable_from(table, function->va + 1);
	     i < n && list[i].va - function->va <= function->bytes; i++)
		file = join_file_names(file, file_at(table, &list[i]));
	return file;
}

/*
 * Set of_tables. The element for a table is the source file of all calls in the table; NULL if it
 * is unknown; "" if the calls come from several files. Return false if there is no memory.
 */
static bool find_files_of_tables(struct unit_files *files)
{
	size_t n, n_tables;
	const struct frame_descr *list = frametable_list(files->table, &n);

	frametable_tables(files->table, &n_tables);
	files->of_tables = calloc(n_tables + 1, sizeof(*files->of_tables));
	for (size_t i = 0; files->of_tables && i < n; i++)
		files->of_tables[list[i].table] = join_file_names(files->of_tables[list[i].table],
								  file_at(files->table, &list[i]));
	return files->of_tables;
}

static const char *file_of_unit(struct unit_files *files, const struct unit *unit)
{
	size_t n;
	const uint64_t *tables = frametable_tables(files->table, &n);

	if (!files->of_tables && !find_files_of_tables(files))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (tables[i] == unit->frametable_va)
			return files->of_tables[i];
	return NULL;
}

int unit_files_read(struct ocp_ctx *ctx, struct elf_file *elf, const struct functions *functions,
		    struct unit_files **out)
{
	struct unit_files *files = calloc(1, sizeof(*files));
	int err;

	*out = files;
	if (!files)
		return ctx_no_memory(ctx);
	files->units = functions_units(functions);
	err = frametable_read(ctx, elf, &files->table);
	if (err != -ENOMEM)
		return 0;
	unit_files_free(files);
	*out = NULL;
	return err;
}

void unit_files_free(struct unit_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->n; i++)
		free(files->shown[i].text);
	free(files->shown);
	free(files->of_tables);
	frametable_free(files->table);
	free(files);
}

const char *unit_files_of(struct unit_files *files, const struct function *function)
{
	const struct unit *unit;
	const char *file;

	if (!files->table)
		return NULL;
	file = file_of_calls(files->table, function);
	unit = file || !function->symbol ? NULL : units_of_symbol(files->units, function->symbol);
	if (unit)
		file = file_of_unit(files, unit);
	return file && *file ? show(files, file) : NULL;
}

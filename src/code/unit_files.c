// SPDX-License-Identifier: MIT
/*
 * The debug information of the calls in a function names its file. All functions of a unit are of
 * one source file, so a function without calls is of the file of its unit. (A #line directive can
 * name another file. If several files are named, the file is unknown.)
 */
#include "code/unit_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "code/frametable.h"
#include "code/units.h"

/* A name in the frame tables, and its printable copy. */
struct shown_file {
	const char *raw;
	char *text;
};

struct unit_files {
	const struct units *units;
	struct frametable *table; /* NULL: the file has none */
	const char **of_tables;	  /* the source file of each frame table; NULL: not looked up yet */
	struct shown_file *shown;
	size_t n, last; /* last: the index of the file returned last */
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

/* Combine two names that should be equal (NULL: unknown). Return "" if they differ. */
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

/* Return the file that all calls in FUNCTION name; NULL: they name none; "": they name several. */
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
 * Set of_tables: for each table, the file that all its calls name; NULL: they name none; "": they
 * name several. Return false if there is no memory.
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

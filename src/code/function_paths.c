// SPDX-License-Identifier: MIT
#include "code/function_paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitize.h"
#include "code/frametable.h"
#include "code/ocaml_name.h"

/* Return true if PATH, a path in debug information, is the name NAME or, in short, NAME. */
static bool is_path_of(const char *path, const char *name)
{
	char text[OCAML_NAME_BYTES];
	size_t short_at;

	return ocaml_name_of_debuginfo(path, text, &short_at) &&
	       (strcmp(text, name) == 0 || strcmp(text + short_at, name) == 0);
}

/* Return true if the code of FUNCTION has a call that is not inlined and has the path NAME. */
static bool has_path(const struct frametable *table, const struct function *function,
		     const char *name)
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	size_t n_descrs, n;
	const struct frame_descr *list = frametable_list(table, &n_descrs);

	for (size_t i = frametable_from(table, function->va + 1);
	     i < n_descrs && list[i].va - function->va <= function->bytes; i++) {
		n = frametable_locations(table, &list[i], locations, FRAME_LOCATIONS_MAX);
		if (n && !locations[n - 1].is_inlined &&
		    is_path_of(locations[n - 1].function, name))
			return true;
	}
	return false;
}

/* Return true if NAME is UNIT[0..BYTES), or begins with it and a dot. */
static bool begins_with_unit(const char *name, const char *unit, size_t bytes)
{
	return strncmp(name, unit, bytes) == 0 && (!name[bytes] || name[bytes] == '.');
}

/* Return true if the name of the unit of FUNCTION, in short or in full, begins NAME. */
static bool is_in_unit(const struct function *function, const char *name)
{
	const size_t short_at = (size_t)(function->name - function->full_name);

	return begins_with_unit(name, function->name, function->path_bytes - short_at) ||
	       begins_with_unit(name, function->full_name, function->path_bytes);
}

int function_paths_find_initialiser(struct ocp_ctx *ctx, struct elf_file *elf,
				    const struct functions *functions, const char *name,
				    const struct function **found)
{
	struct frametable *table = NULL;
	char text[OCAML_NAME_BYTES];
	size_t n, short_at;
	const struct function *const *all = functions_by_name(functions, &n);
	int err;

	*found = NULL;
	if (!ocaml_name_of_debuginfo(name, text, &short_at))
		return 0;
	err = frametable_read(ctx, elf, &table);
	for (size_t i = 0; !err && i < n && !*found; i++)
		if (all[i]->is_initialiser && is_in_unit(all[i], text) &&
		    (!strchr(name, '.') || has_path(table, all[i], text)))
			*found = all[i];
	frametable_free(table);
	return err == -ENOMEM ? err : 0;
}

static int take_place(struct ocp_ctx *ctx, const struct frame_location *location,
		      struct function_path_place *place)
{
	place->file = strdup(location->file);
	place->line = location->line;
	if (!place->file)
		return ctx_no_memory(ctx);
	make_one_line(place->file);
	return 0;
}

int function_paths_find_inlined(struct ocp_ctx *ctx, struct elf_file *elf, const char *name,
				struct function_path_place *place)
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	const struct frame_descr *list;
	struct frametable *table = NULL;
	char text[OCAML_NAME_BYTES];
	size_t n_descrs = 0, n, short_at;
	int err = 0;

	*place = (struct function_path_place){ 0 };
	if (!ocaml_name_of_debuginfo(name, text, &short_at))
		return 0;
	err = frametable_read(ctx, elf, &table);
	list = err ? NULL : frametable_list(table, &n_descrs);
	for (size_t i = 0; !err && !place->file && i < n_descrs; i++) {
		n = frametable_locations(table, &list[i], locations, FRAME_LOCATIONS_MAX);
		for (size_t k = 0; !err && k < n && !place->file; k++)
			if (is_path_of(locations[k].function, text))
				err = take_place(ctx, &locations[k], place);
	}
	frametable_free(table);
	return err == -ENOMEM ? err : 0;
}

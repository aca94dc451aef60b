// SPDX-License-Identifier: MIT
/* Search the functions of a file: by name, by address, by kind. */
#include "base/search.h"
#include "code/functions_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "code/ocaml_name.h"
#include "code/program_kind.h"

/*
 * How many functions functions_at() looks at, backwards from an address: a function that contains
 * the address may begin before others that end earlier.
 */
enum { MAX_STEPS_BACK = 16 };

const struct function *functions_list(const struct functions *functions, size_t *n)
{
	*n = functions->n;
	return functions->list;
}

const uint64_t *functions_entries(const struct functions *functions, size_t *n)
{
	*n = functions->n_entries;
	return functions->entries;
}

enum functions_source functions_source(const struct functions *functions)
{
	return functions->source;
}

const struct units *functions_units(const struct functions *functions)
{
	return &functions->units;
}

size_t functions_ocaml_count(const struct functions *functions)
{
	return functions->n_ocaml;
}

bool functions_have_runtime(const struct functions *functions)
{
	return functions->has_runtime;
}

bool functions_have_ocaml_stacks(const struct functions *functions)
{
	const struct function *function = functions->n_ocaml ? functions->by_name[0] : NULL;

	return function && function->symbol ? strchr(function->symbol, '.') != NULL
					    : functions->has_ocaml_stacks;
}

bool functions_are_of_flambda(const struct functions *functions)
{
	return functions->is_flambda;
}

int functions_require_ocaml(struct ocp_ctx *ctx, const struct functions *functions,
			    const char *name)
{
	if (functions->n_ocaml)
		return 0;
	if (functions_find_c(functions, "caml_interprete"))
		return program_kind_need_native(ctx, PROGRAM_BYTECODE, name);
	if (functions->has_runtime)
		return ctx_error(ctx, -ENODATA, "%s: has OCaml's runtime, but no native OCaml code",
				 name);
	return program_kind_need_native(ctx, PROGRAM_FOREIGN, name);
}

const struct function *const *functions_by_name(const struct functions *functions, size_t *n)
{
	*n = functions->n_ocaml;
	return functions->by_name;
}

static const char *name_in(const struct function *function, bool flat)
{
	return flat ? function->flat_name : function->name;
}

/* Return the index of the first function in NAMES[0..N) whose name is not before NAME. */
static size_t first_named(const struct function *const *names, size_t n, const char *name,
			  bool flat)
{
	return SEARCH(i, n, strcmp(name_in(names[i], flat), name) < 0);
}

/* A requested name. */
struct requested_name {
	const char *name, *full_name; /* full_name NULL: any */
	int64_t stamp;		      /* negative: any */
	bool flat;
};

static bool is_asked(const struct function *function, const struct requested_name *asked)
{
	const char *full_name = asked->flat ? function->full_flat_name : function->full_name;

	return (!asked->full_name || strcmp(full_name, asked->full_name) == 0) &&
	       (asked->stamp < 0 || function->stamp == asked->stamp);
}

static const struct function *const *
find_requested_functions(const struct functions *f, const struct requested_name *asked, size_t *n)
{
	const struct function *const *names = asked->flat ? f->by_flat_name : f->by_name;
	const size_t n_names = asked->flat ? f->n_flat : f->n_ocaml;
	size_t first = first_named(names, n_names, asked->name, asked->flat), last = first, end;

	while (last < n_names && strcmp(name_in(names[last], asked->flat), asked->name) == 0)
		last++;
	while (first < last && !is_asked(names[first], asked))
		first++;
	for (end = first; end < last && is_asked(names[end], asked); end++)
		;
	*n = end - first;
	return *n ? names + first : NULL;
}

const struct function *const *functions_find(const struct functions *functions, const char *name,
					     size_t *n)
{
	const struct function *const *found = NULL;
	struct requested_name asked;
	char text[OCAML_NAME_BYTES];
	int64_t stamp;

	*n = 0;
	if (!ocaml_name_normalise(name, text, &stamp))
		return NULL;
	for (int flat = 0; flat < 2 && !found; flat++) {
		asked = (struct requested_name){ .name = text, .stamp = stamp, .flat = flat };
		found = find_requested_functions(functions, &asked, n);
		if (found)
			break;
		asked.name = text + ocaml_name_short_at(text);
		asked.full_name = text;
		found = find_requested_functions(functions, &asked, n);
	}
	return found;
}

const struct function *const *functions_versions(const struct functions *functions,
						 const char *name, size_t *n)
{
	const struct function *const *all = functions->by_symbol;
	const size_t n_all = functions->n - functions->n_ocaml;
	const size_t first = first_named(all, n_all, name, false);
	size_t end = first;

	while (end < n_all && strcmp(all[end]->name, name) == 0)
		end++;
	*n = end - first;
	return *n ? all + first : NULL;
}

/*
 * Return true if a name without a version means A rather than B. It means the version that programs
 * are linked with or, if programs are linked with neither of them, the later version. Programs are
 * linked with functions that have no version.
 */
static bool is_preferred(const struct function *a, const struct function *b)
{
	if (a->is_hidden != b->is_hidden)
		return b->is_hidden;
	return a->is_hidden && a->version_index > b->version_index;
}

static const struct function *find_version(const struct functions *functions, const char *symbol,
					   const char *at)
{
	const char *version = at + (at[1] == '@' ? 2 : 1);
	char name[FUNCTION_TEXT_BYTES];
	const struct function *const *found;
	size_t n;

	if ((size_t)(at - symbol) >= sizeof(name))
		return NULL;
	memcpy(name, symbol, (size_t)(at - symbol));
	name[at - symbol] = '\0';
	found = functions_versions(functions, name, &n);
	for (size_t i = 0; found && i < n; i++)
		if (found[i]->version && strcmp(found[i]->version, version) == 0)
			return found[i];
	return NULL;
}

const struct function *functions_find_c(const struct functions *functions, const char *symbol)
{
	const struct function *const *found, *best = NULL;
	const char *at = strchr(symbol, '@');
	size_t n;

	if (at)
		return find_version(functions, symbol, at);
	found = functions_versions(functions, symbol, &n);
	for (size_t i = 0; found && i < n; i++)
		if (!best || is_preferred(found[i], best))
			best = found[i];
	return best;
}

const struct function *functions_at(const struct functions *functions, uint64_t va)
{
	const struct function *list = functions->list;
	const size_t next = SEARCH(i, functions->n, list[i].va <= va);

	for (size_t back = 1; back <= next && back <= MAX_STEPS_BACK; back++)
		if (va - list[next - back].va < list[next - back].bytes)
			return &list[next - back];
	return NULL;
}

const char *function_text(const struct function *function, char text[FUNCTION_TEXT_BYTES])
{
	if (function->is_unique)
		snprintf(text, FUNCTION_TEXT_BYTES, "%s", function->name);
	else
		snprintf(text, FUNCTION_TEXT_BYTES, "%s/%" PRIu32, function->name, function->stamp);
	return text;
}

bool function_matches(const struct function *function, const struct str_regexp *re)
{
	char text[FUNCTION_TEXT_BYTES];

	if (str_regexp_match(re, function->name))
		return true;
	if (function->full_name != function->name && str_regexp_match(re, function->full_name))
		return true;
	if (function->flat_name != function->name && str_regexp_match(re, function->flat_name))
		return true;
	snprintf(text, sizeof(text), "%s/%" PRIu32, function->name, function->stamp);
	return str_regexp_match(re, text);
}

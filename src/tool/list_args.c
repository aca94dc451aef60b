// SPDX-License-Identifier: MIT
#include "tool/json.h"
#include "tool/list_args.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/places.h"
#include "program/program.h"

enum arg_column {
	COLUMN_PROBE,
	COLUMN_SITE,
	COLUMN_SOURCE,
	COLUMN_ARG,
	COLUMN_NAME,
	COLUMN_TYPE,
	N_PADDED
};

static const char *const headings[N_PADDED] = { "PROBE", "SITE", "SOURCE", "ARG", "NAME", "TYPE" };

enum { TEXT_BYTES = 32 };

/* The sites that have code, with the places of their probes in the source. */
struct site_listing {
	const struct ocp_program *prog;
	struct probe_place *places; /* sorted by probe, then by address */
	size_t n;
	char *names; /* the files' names */
	/* widths of the padded columns; the last cell of a line is not padded */
	int widths[N_PADDED + 1];
};

static int open_listing(const struct ocp_program *prog, struct site_listing *listing)
{
	*listing = (struct site_listing){ .prog = prog };
	listing->places = calloc(prog->n_sites + 1, sizeof(*listing->places));
	if (!listing->places)
		return ctx_no_memory(prog->ctx);
	for (size_t i = 0; i < prog->n_sites; i++)
		if (prog->sites[i].has_code)
			listing->places[listing->n++].site = &prog->sites[i];
	return places_find(prog, listing->places, listing->n, &listing->names);
}

static void close_listing(struct site_listing *listing)
{
	free(listing->places);
	free(listing->names);
}

/*
 * Return the next operand of *TEXT, set *N to its length, and move *TEXT behind it. Return NULL at
 * the end.
 */
static const char *next_operand(const char **text, size_t *n)
{
	const char *operand = *text + strspn(*text, " ");

	*n = strcspn(operand, " ");
	*text = operand + *n;
	return *n ? operand : NULL;
}

/*
 * Return the place in OPERAND, which is the text after the size and "@", and set *N to its length.
 * Return "-" if the compiler recorded no place.
 */
static const char *place_in(const char *operand, size_t *n)
{
	const char *at = memchr(operand, '@', *n);

	if (*n == strlen("8@$0") && memcmp(operand, "8@$0", *n) == 0) {
		*n = 1;
		return "-";
	}
	if (!at)
		return operand;
	*n -= (size_t)(at + 1 - operand);
	return at + 1;
}

/* Print a line that ends with the N bytes of OPERAND. Without PRINT, only widen the columns. */
static void put_cells(struct site_listing *listing, const char *const cells[N_PADDED],
		      const char *operand, size_t n, bool print)
{
	const char *all[N_PADDED + 1];

	for (size_t i = 0; i < N_PADDED; i++)
		all[i] = cells[i];
	all[N_PADDED] = "";
	print_columns(listing->widths, all, N_PADDED + 1, print);
	if (print)
		printf("%.*s\n", (int)n, operand);
}

/*
 * Print a line for each argument of the site. Without PRINT, only widen the columns for these
 * lines. A site without arguments has one line.
 */
static void put_site(struct site_listing *listing, const struct probe_place *place, bool print)
{
	const struct site *site = place->site;
	char va[TEXT_BYTES], arg[TEXT_BYTES], name[OCP_ARG_NAME_BYTES], *source = NULL;
	const char *rest = site->args, *operand;
	size_t n, i = 0;

	snprintf(va, sizeof(va), "0x%" PRIx64, site->va);
	if (place->file && asprintf(&source, "%s:%d", place->file, place->line) < 0)
		source = NULL;
	while ((operand = next_operand(&rest, &n)) || i == 0) {
		const enum ocp_arg_type type = ocp_arg_name(site->arg_names, i, name);
		const char *type_name = ocp_arg_type_name(type);
		const char *at = operand ? place_in(operand, &n) : "-";

		snprintf(arg, sizeof(arg), "arg%zu", i++);
		put_cells(listing,
			  (const char *const[]){ listing->prog->probes[site->probe].name, va,
						 source ? source : "-", operand ? arg : "-",
						 operand && *name ? name : "-",
						 operand && *type_name ? type_name : "-" },
			  at, operand ? n : 1, print);
		if (!operand)
			break;
	}
	free(source);
}

int list_args_print(struct options *options, const struct ocp_program *prog)
{
	struct site_listing listing;
	int err = open_listing(prog, &listing);

	if (err) {
		close_listing(&listing);
		return say_error(options->ctx, err);
	}
	put_cells(&listing, headings, "", 0, false);
	for (size_t i = 0; i < listing.n; i++)
		put_site(&listing, &listing.places[i], false);
	put_cells(&listing, headings, "PLACE", strlen("PLACE"), true);
	for (size_t i = 0; i < listing.n; i++)
		put_site(&listing, &listing.places[i], true);
	close_listing(&listing);
	return EXIT_DONE;
}

char *args_text(const char *arg_names, const char *operands)
{
	char *text = NULL;
	const char *operand;
	size_t n, n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);

	if (!out)
		return NULL;
	for (size_t i = 0; (operand = next_operand(&operands, &n)); i++) {
		char name[OCP_ARG_NAME_BYTES];
		const enum ocp_arg_type type = ocp_arg_name(arg_names, i, name);

		fprintf(out, "%s%s", i ? " " : "", name);
		if (type != OCP_ARG_ANY)
			fprintf(out, ":%s", ocp_arg_type_name(type));
		fprintf(out, "%s%.*s", *name || type != OCP_ARG_ANY ? "=" : "", (int)n, operand);
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

struct json_object *args_json(const char *arg_names, const char *operands)
{
	struct json_object *array = json_object_new_array();
	const char *operand;
	size_t n;

	for (size_t i = 0; (operand = next_operand(&operands, &n)); i++) {
		struct json_object *to = json_object_new_object();
		char name[OCP_ARG_NAME_BYTES];
		const enum ocp_arg_type type = ocp_arg_name(arg_names, i, name);

		json_add_filled_string(to, "name", name);
		json_add_filled_string(to, "type", ocp_arg_type_name(type));
		json_object_object_add(to, "place", json_object_new_string_len(operand, (int)n));
		json_object_array_add(array, to);
	}
	return array;
}

static struct json_object *site_json(const struct probe_place *place)
{
	struct json_object *to = json_object_new_object();
	char va[TEXT_BYTES];

	snprintf(va, sizeof(va), "0x%" PRIx64, place->site->va);
	json_add_filled_string(to, "linked", va);
	json_add_filled_string(to, "source", place->file);
	json_add_known_int(to, "line", place->file, place->line);
	json_object_object_add(to, "args", args_json(place->site->arg_names, place->site->args));
	return to;
}

struct json_object *list_args_json(const struct ocp_program *prog)
{
	struct json_object *all = json_object_new_array();
	struct site_listing listing;
	int err = open_listing(prog, &listing);

	for (size_t i = 0; !err && i < prog->n_probes; i++)
		json_object_array_add(all, json_object_new_array());
	for (size_t i = 0; !err && i < listing.n; i++)
		json_object_array_add(json_object_array_get_idx(all, listing.places[i].site->probe),
				      site_json(&listing.places[i]));
	close_listing(&listing);
	if (err) {
		json_object_put(all);
		return NULL;
	}
	return all;
}

// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str_regexp.h"
#include "base/suggest.h"
#include "cli/progress.h"
#include "cli/cli.h"
#include "code/code_file.h"
#include "code/functions.h"
#include "code/units.h"
#include "code/window.h"
#include "code/x86_function.h"
#include "elf/lines.h"
#include "process/code_images.h"
#include "program/item.h"
#include "program/selection.h"
#include "tool/writer.h"

/* A row of the table, or an object in JSON. */
struct function_row {
	const struct function *function;
	const char *source; /* the file of the source; NULL: unknown */
	int line;	    /* 0: unknown */
	/* The cost of counting calls: "cheap", "expensive", "impossible"; NULL: unknown. */
	const char *cost;
	/* why calls cannot be counted; NULL: they can be, or it is unknown whether they can be */
	const char *reason;
	/* why the engine `inside` cannot count the calls, as the end of a message; NULL: it can */
	const char *no_inside;
	const char *no_time_inside; /* ... time the calls */
	const char *image;	    /* the file that contains the function */
};

/* ---- table ---------------------------------------------------------------------------------- */

enum function_column {
	COLUMN_FUNCTION,
	COLUMN_ARITY,
	COLUMN_COST,
	COLUMN_INSIDE,
	COLUMN_SOURCE,
	COLUMN_FILE,
	N_COLUMNS
};

struct function_cells {
	const char *text[N_COLUMNS];
	char function[FUNCTION_TEXT_BYTES], arity[8], source[4096];
};

static const char *arity_text(const struct function *function, char text[8])
{
	if (function->arity == ARITY_UNKNOWN)
		return "-";
	/* A negative arity -N: the function takes one tuple of N elements. */
	if (function->arity < 0)
		snprintf(text, 8, "(%d)", -function->arity);
	else
		snprintf(text, 8, "%d", function->arity);
	return text;
}

static const char *source_text(const struct function_row *row, char text[4096])
{
	if (!row->source)
		return "-";
	if (row->line)
		snprintf(text, 4096, "%s:%d", row->source, row->line);
	else
		snprintf(text, 4096, "%s", row->source);
	return text;
}

static void fill(struct function_cells *cells, const struct function_row *row)
{
	cells->text[COLUMN_FUNCTION] = function_text(row->function, cells->function);
	cells->text[COLUMN_ARITY] = arity_text(row->function, cells->arity);
	cells->text[COLUMN_COST] = row->cost ? row->cost : "-";
	cells->text[COLUMN_INSIDE] = row->no_inside ? "no" : "yes";
	cells->text[COLUMN_SOURCE] = source_text(row, cells->source);
	cells->text[COLUMN_FILE] = row->image;
}

/* Print a table, with a column for the image if HAS_IMAGES. */
static void functions_print_table(const struct function_row *rows, size_t n, bool has_images)
{
	static const char *const titles[] = { "FUNCTION", "ARITY",  "COST",
					      "INSIDE",	  "SOURCE", "FILE" };
	const size_t n_columns = has_images ? N_COLUMNS : N_COLUMNS - 1;
	int widths[N_COLUMNS] = { 0 };
	struct function_cells cells;

	print_columns(widths, titles, n_columns, false);
	for (size_t i = 0; i < n; i++) {
		fill(&cells, &rows[i]);
		print_columns(widths, cells.text, n_columns, false);
	}
	print_columns(widths, titles, n_columns, true);
	putchar('\n');
	for (size_t i = 0; i < n; i++) {
		fill(&cells, &rows[i]);
		print_columns(widths, cells.text, n_columns, true);
		if (rows[i].reason)
			printf("  (%s)", rows[i].reason);
		putchar('\n');
	}
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* A program has tens of thousands of functions, so the JSON is written without json-c. */
static void write_member(const char *key, const char *text)
{
	printf(",\"%s\":", key);
	if (text)
		write_json_text(text, strlen(text));
	else
		fputs("null", stdout);
}

static void write_number(const char *key, bool is_known, int64_t number)
{
	if (is_known)
		printf(",\"%s\":%" PRId64, key, number);
	else
		printf(",\"%s\":null", key);
}

static void write_row(const struct function_row *row, bool has_images)
{
	const struct function *function = row->function;
	char item[FUNCTION_TEXT_BYTES + sizeof(ITEM_FUNCTION_PREFIX)] = ITEM_FUNCTION_PREFIX;

	function_text(function, item + strlen(item));
	fputs("{\"name\":", stdout);
	write_json_text(function->name, strlen(function->name));
	write_member("item", item);
	write_member("symbol", function->symbol);
	write_number("stamp", function->stamp || function->is_initialiser, function->stamp);
	write_number("arity", function->arity != ARITY_UNKNOWN, function->arity);
	write_member("file", row->source);
	write_number("line", row->line != 0, row->line);
	/* 64-bit numbers are strings, since many JSON readers keep only 53 bits. */
	printf(",\"address\":\"0x%" PRIx64 "\"", function->va);
	write_number("bytes", true, (int64_t)function->bytes);
	write_member("cost", row->cost);
	write_member("reason", row->reason);
	write_member("no_inside", row->no_inside);
	write_member("no_time_inside", row->no_time_inside);
	if (has_images)
		write_member("image", row->image);
	putchar('}');
}

/* Print JSON. PROG is the executable of process PID, or if PID is 0 the examined file. */
static void functions_print_json(const struct function_row *rows, size_t n, const char *prog,
				 int pid)
{
	fputs("{\"version\":1", stdout);
	if (pid)
		printf(",\"pid\":%d", pid);
	write_member(pid ? "exe" : "prog", prog);
	fputs(",\"functions\":[", stdout);
	for (size_t i = 0; i < n; i++) {
		if (i)
			putchar(',');
		write_row(&rows[i], pid != 0);
	}
	puts("]}");
}

enum { MAX_FUNCTION_BYTES = 1 << 24 };

struct function_listing {
	struct options *options;
	struct code_images images;
	struct str_regexp *re; /* NULL: all functions */
	const char *pattern;
	struct function_row *rows;
	size_t n;
	char **names; /* for each image: the names of its source files */
	/* for each image: the source files of its units, for functions whose place is unknown */
	struct unit_files **files;
};

/* ---- choosing ------------------------------------------------------------------------------- */

static int no_match(const struct function_listing *listing)
{
	struct suggestion suggestion = suggestion_for(listing->pattern);
	const char *where =
		listing->options->prog ? listing->options->prog : listing->images.exe_path;

	for (size_t i = 0; i < listing->images.n; i++) {
		size_t n;
		const struct function *const *all =
			functions_by_name(listing->images.images[i].functions, &n);

		for (size_t k = 0; k < n; k++)
			suggestion_offer(&suggestion, all[k]->name);
	}
	selection_matches_none(listing->options->ctx, listing->pattern, "OCaml function", where);
	if (suggestion.best)
		ctx_hint(listing->options->ctx, "did you mean '%s'?", suggestion.best);
	return -ENOENT;
}

static int take_matching_functions(struct function_listing *listing)
{
	const struct code_images *images = &listing->images;
	size_t room = 0, n_rows = 0;

	for (size_t i = 0; i < images->n; i++)
		room += functions_ocaml_count(images->images[i].functions);
	listing->rows = calloc(room + 1, sizeof(*listing->rows));
	if (!listing->rows)
		return ctx_no_memory(listing->options->ctx);
	for (size_t i = 0; i < images->n; i++) {
		size_t n;
		const struct function *list = functions_list(images->images[i].functions, &n);

		for (size_t k = 0; k < n; k++)
			if (list[k].language == FUNCTION_OCAML &&
			    (!listing->re || function_matches(&list[k], listing->re)))
				listing->rows[n_rows++] = (struct function_row){
					.function = &list[k],
					.image = images->images[i].path,
				};
	}
	listing->n = n_rows;
	return n_rows || !listing->re ? 0 : no_match(listing);
}

/* ---- sources and costs ---------------------------------------------------------------------- */

/*
 * Find the source files of functions whose place is unknown: they have no debug information, or are
 * initialisers. Their lines stay unknown.
 */
static int find_files(struct ocp_ctx *ctx, const struct code_image *image,
		      struct function_row *rows, size_t n, struct unit_files **files)
{
	size_t first = 0;
	int err;

	while (first < n && rows[first].source)
		first++;
	if (first == n)
		return 0;
	err = unit_files_read(ctx, image->elf, image->functions, files);
	for (size_t i = first; !err && i < n; i++)
		if (!rows[i].source)
			rows[i].source = unit_files_of(*files, rows[i].function);
	return err;
}

/* Find the source places of ROWS[0..N), which are all in IMAGE and sorted by address. */
static int find_sources(struct ocp_ctx *ctx, const struct code_image *image,
			struct function_row *rows, size_t n, char **names,
			struct unit_files **files)
{
	struct source_line *lines = calloc(n + 1, sizeof(*lines));
	int err;

	if (!lines)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < n; i++)
		lines[i].va = rows[i].function->va;
	err = lines_find(ctx, image->fd, image->path, LINES_FIRST, lines, n, names);
	for (size_t i = 0; !err && i < n; i++) {
		/*
		 * Skip initialisers: the code of a module's top level may begin with an inlined
		 * function, whose line would be wrong here.
		 */
		if (rows[i].function->is_initialiser)
			continue;
		rows[i].source = lines[i].file;
		rows[i].line = lines[i].line;
	}
	free(lines);
	return err ? err : find_files(ctx, image, rows, n, files);
}

/* Find out whether the engine `inside` can count the calls of the function in ROW. */
static int find_window(struct ocp_ctx *ctx, const struct code_file *file, bool has_ocaml_stacks,
		       const struct code_function *decoded, struct function_row *row)
{
	struct code_windows windows;
	int err =
		code_windows_find(ctx, code_file_flow(file), decoded,
				  has_ocaml_stacks ? WINDOW_OCAML_5 : WINDOW_OCAML_4, 0, &windows);

	if (err)
		return err;
	row->no_inside = windows.no_count;
	row->no_time_inside = windows.no_time;
	code_windows_free(&windows);
	return 0;
}

/* Find the cost of counting the calls of the function in ROW. */
static int find_cost(struct ocp_ctx *ctx, struct code_file *file, bool has_ocaml_stacks,
		     struct function_row *row)
{
	const struct function *function = row->function;
	struct code_function decoded;
	struct code_bytes code;
	int err;

	row->cost = "impossible";
	row->no_inside = row->no_time_inside = "its code is not known";
	if (function->bytes > MAX_FUNCTION_BYTES) {
		row->reason = "its code is too large";
		return 0;
	}
	err = code_file_function(file, function->va, function->bytes, &code);
	if (err == -ENODATA) {
		row->reason = "its code is not in the file";
		return 0;
	}
	if (err)
		return ctx_no_memory(ctx);
	err = code_function_decode(ctx, &code, file, &decoded);
	if (err)
		return err;
	row->reason = decoded.no_count;
	if (!decoded.no_count)
		row->cost = decoded.place_cost == CODE_EMULATED ? "cheap" : "expensive";
	err = find_window(ctx, file, has_ocaml_stacks, &decoded, row);
	code_function_free(&decoded);
	return err;
}

/* Find the costs for ROWS[0..N), which are all in IMAGE and sorted by address. */
static int find_costs(struct ocp_ctx *ctx, const struct code_image *image,
		      struct function_row *rows, size_t n)
{
	size_t n_entries;
	const uint64_t *entries = functions_entries(image->functions, &n_entries);
	struct code_file *file;
	int err = code_file_open(ctx, image->elf, entries, n_entries, &file);

	for (size_t i = 0; !err && i < n; i++)
		err = find_cost(ctx, file, functions_have_ocaml_stacks(image->functions), &rows[i]);
	code_file_close(file);
	return err;
}

static int find_sources_and_costs(struct function_listing *listing)
{
	struct ocp_ctx *ctx = listing->options->ctx;
	size_t first = 0, end;
	int err = 0;

	listing->names = calloc(listing->images.n, sizeof(char *));
	listing->files = calloc(listing->images.n, sizeof(struct unit_files *));
	if (!listing->names || !listing->files)
		return ctx_no_memory(ctx);
	for (size_t i = 0; !err && i < listing->images.n; i++) {
		const struct code_image *image = &listing->images.images[i];

		for (end = first; end < listing->n; end++)
			if (listing->rows[end].image != image->path)
				break;
		err = find_sources(ctx, image, listing->rows + first, end - first,
				   &listing->names[i], &listing->files[i]);
		if (!err)
			err = find_costs(ctx, image, listing->rows + first, end - first);
		first = end;
	}
	return err;
}

static int compare_function_rows(const void *a, const void *b)
{
	const struct function_row *x = a, *y = b;
	int order = strcmp(x->function->name, y->function->name);

	if (order == 0)
		order = (x->function->stamp > y->function->stamp) -
			(x->function->stamp < y->function->stamp);
	if (order == 0)
		order = strcmp(x->image, y->image);
	return order;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int list_functions(struct function_listing *listing)
{
	const struct options *options = listing->options;
	int err = 0;

	progress_begin(options, "reading");
	if (listing->pattern)
		err = str_regexp_new(options->ctx, listing->pattern, &listing->re);
	if (!err)
		err = options->pid
			      ? code_images_read(options->ctx, options->pid, &listing->images)
			      : code_images_open(options->ctx, options->prog, &listing->images);
	if (!err)
		err = take_matching_functions(listing);
	if (!err)
		err = find_sources_and_costs(listing);
	if (err)
		return say_error(options->ctx, err);
	qsort(listing->rows, listing->n, sizeof(*listing->rows), compare_function_rows);
	progress_end();
	if (options->json)
		functions_print_json(listing->rows, listing->n,
				     options->pid ? listing->images.exe_path : options->prog,
				     options->pid);
	else
		functions_print_table(listing->rows, listing->n, listing->images.n > 1);
	return EXIT_DONE;
}

static int run_functions(struct options *options)
{
	struct function_listing listing = { .options = options };
	int code;

	if (options->n_args > 1)
		return say_usage(&command_functions, "'%s': one regular expression is enough",
				 options->args[1]);
	if (!options->pid == !options->prog)
		return say_usage(&command_functions,
				 options->pid ? "-pid and -prog are mutually exclusive"
					      : "-pid or -prog is required");
	listing.pattern = options->n_args ? options->args[0] : NULL;
	code = list_functions(&listing);
	for (size_t i = 0; listing.names && i < listing.images.n; i++)
		free(listing.names[i]);
	for (size_t i = 0; listing.files && i < listing.images.n; i++)
		unit_files_free(listing.files[i]);
	free(listing.files);
	free(listing.names);
	free(listing.rows);
	code_images_free(&listing.images);
	str_regexp_free(listing.re);
	return code;
}

const struct command command_functions = {
	.name = "functions",
	.help = &help_functions,
	.takes_words = true,
	.takes_file = true,
	.run = run_functions,
};

// SPDX-License-Identifier: MIT
/* A program has tens of thousands of functions, so the JSON is written without json-c. */
#include "tool/functions_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "tool/writer.h"

enum function_column {
	COLUMN_FUNCTION,
	COLUMN_ARITY,
	COLUMN_COST,
	COLUMN_SOURCE,
	COLUMN_FILE,
	N_COLUMNS
};

/* Longer values push later columns to the right. */
enum { MAX_WIDTH = 48 };

struct function_cells {
	const char *text[N_COLUMNS];
	char function[FUNCTION_TEXT_BYTES], arity[8], source[4096];
};

static const char *arity_text(const struct function *function, char text[8])
{
	if (function->arity == ARITY_UNKNOWN)
		return "-";
	/* A negative arity: the argument is one tuple. */
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
	cells->text[COLUMN_SOURCE] = source_text(row, cells->source);
	cells->text[COLUMN_FILE] = row->image;
}

static void print_cells(const struct function_cells *cells, const int *widths, int n,
			const char *reason)
{
	for (int c = 0; c < n; c++) {
		const int bytes = (int)strlen(cells->text[c]);

		print_text(cells->text[c]);
		if (c < n - 1)
			printf("%*s", (bytes < widths[c] ? widths[c] - bytes : 0) + 2, "");
	}
	printf(reason ? "  (%s)\n" : "\n", reason);
}

void functions_print_table(const struct function_row *rows, size_t n, bool has_images)
{
	struct function_cells cells = { .text = { "FUNCTION", "ARITY", "COST", "SOURCE", "FILE" } };
	const int n_columns = has_images ? N_COLUMNS : N_COLUMNS - 1;
	int widths[N_COLUMNS] = { 8, 5, 4, 6, 4 };

	for (size_t i = 0; i < n; i++) {
		struct function_cells row;

		fill(&row, &rows[i]);
		for (int c = 0; c < n_columns; c++) {
			const size_t bytes = strlen(row.text[c]);

			if (bytes <= MAX_WIDTH && (int)bytes > widths[c])
				widths[c] = (int)bytes;
		}
	}
	print_cells(&cells, widths, n_columns, NULL);
	for (size_t i = 0; i < n; i++) {
		fill(&cells, &rows[i]);
		print_cells(&cells, widths, n_columns, rows[i].reason);
	}
}

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

	fputs("{\"name\":", stdout);
	write_json_text(function->name, strlen(function->name));
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
	if (has_images)
		write_member("image", row->image);
	putchar('}');
}

void functions_print_json(const struct function_row *rows, size_t n, const char *prog, int pid)
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

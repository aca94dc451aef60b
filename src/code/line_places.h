/* SPDX-License-Identifier: MIT */
/*
 * Where the lines of a source file begin in OCaml code: the instructions whose execution begins a
 * line.
 *
 * A row of the line table begins its line, unless the previous row of the same function, in the
 * order of addresses, has the same line. There are two exceptions:
 *
 * A compiler interleaves the code of lines, so execution can come back to a line that it has begun.
 * If every path to a place leads through another place of the line, the place continues the line
 * and is left out. But if the place is in inlined code, and a path to it comes from a place with
 * the same column, the code is inlined twice in a row. In this case, the place begins the line
 * again and is kept.
 *
 * ocamlopt gives the jump through the table of a `match` the line of its first case. This jump is
 * left out. The first case begins at the next row of its line.
 */
#ifndef CODE_LINE_PLACES_H
#define CODE_LINE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "code/functions.h"
#include "code/x86_function.h"
#include "elf/elf_file.h"

struct line_place {
	/* the address of the row, and the address where the next row begins */
	uint64_t va, end_va;
	const struct function *function; /* the function that contains va */
	int line, column;		 /* lines count from 1, columns from 0 */
	bool is_inlined;
	bool goes_on; /* the previous row has the same line */
	enum code_cost cost;
	const char *fault; /* the reason why no uprobe can count the place; NULL if a uprobe can */
	/*
	 * Set if windows were asked for. window_va and n_window are the address and the size of
	 * the window (code/window.h) that is executed as often as the place. If there is no such
	 * window, no_window is the reason; otherwise it is NULL.
	 */
	uint64_t window_va;
	const char *no_window;
	uint8_t n_window;
};

struct line_places {
	struct line_place *list; /* sorted by line, then by address */
	size_t n;
	char *file;    /* the path of the source in the debug information; NULL: not found */
	char *other;   /* another source with the requested name; NULL: none */
	char *nearest; /* if `file` is NULL: a source with a similar name; NULL: none */
	bool has_rows; /* the file has a line table of OCaml code */
	/*
	 * Inlined code is left out: several files have the requested name, and it is unknown from
	 * which of them the code was inlined.
	 */
	bool lacks_inlined;
};

enum line_match {
	LINE_FILE, /* the name of the source ends with FILE: "service.ml", "src/service.ml" */
	LINE_PATH, /* FILE may have moved: take the source with the longest end in common */
};

/* Columns FROM to TO - 1 of a line. */
struct line_span {
	int line, from, to;
};

/* Spans, sorted by line. */
struct line_spans {
	const struct line_span *list;
	size_t n;
};

/*
 * Find the places of all lines of the source called FILE in ELF, which is the file of FD. FUNCTIONS
 * are the functions of ELF and must exist as long as *OUT. Rows that begin in one of the SPANS,
 * which may be NULL, are left out. If WINDOWS, find the windows of the places. Returns -EBADMSG if
 * there are too many places.
 */
int line_places_read(struct ocp_ctx *ctx, struct elf_file *elf, int fd,
		     const struct functions *functions, const char *file, enum line_match match,
		     const struct line_spans *spans, bool windows, struct line_places *out);
void line_places_free(struct line_places *places);

/*
 * Record the error that ELF has no line tables of OCaml code, since it was compiled without -g or
 * stripped. WHO names ELF and begins the message. Returns -ENODATA.
 */
int line_places_no_tables(struct ocp_ctx *ctx, struct elf_file *elf, const char *who);

/* Return the *N places of LINE; NULL if LINE has no places. */
const struct line_place *line_places_find(const struct line_places *places, int line, size_t *n);

/*
 * Set *BEFORE and *AFTER to the nearest lines before and after LINE that have places; 0 if there is
 * no such line.
 */
void line_places_around(const struct line_places *places, int line, int *before, int *after);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Where the lines of a source file begin in OCaml code: the instructions whose execution begins a line.
 *
 * A line begins at each row of the line table whose predecessor, by address and in the same function, is
 * of another line. There are two exceptions:
 *
 * A compiler puts the code of lines between each other, so execution can come back to a line that it has
 * begun. Where every way to a place leads through an earlier place of the line, each time anew, the place
 * continues the line and is left out. Code that was inlined into a function begins with
 * the same column each time: such places are told apart.
 *
 * ocamlopt gives the jump through the table of a `match` the line of its first case. This jump is left
 * out. The first case begins at its next row.
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
	uint64_t va, end_va;		 /* of its row: until the next one */
	const struct function *function; /* that contains it */
	int line, column;		 /* from 1, from 0 */
	bool is_inlined;
	bool goes_on; /* the row before is of the same line */
	enum code_cost cost;
	const char *fault; /* NULL, or why no uprobe counts it */
};

struct line_places {
	struct line_place *list; /* by line, then by address */
	size_t n;
	char *file;    /* the source, as the debug information names it; NULL: none has that name */
	char *other;   /* another source that has that name as well; NULL: none */
	char *nearest; /* if `file` is NULL: a source with a name like that; NULL: none */
	bool has_rows; /* is there a line table of OCaml code? */
	/* Code of the file was inlined elsewhere, but another file has the same name there: left out. */
	bool lacks_inlined;
};

enum line_match {
	LINE_FILE, /* FILE ends the name of the source: "service.ml", "src/service.ml" */
	LINE_PATH, /* FILE is the path of the source, which may have been moved: its end counts */
};

/* Columns of a line: FROM, and those before TO. */
struct line_span {
	int line, from, to;
};

/* Sorted by line. */
struct line_spans {
	const struct line_span *list;
	size_t n;
};

/*
 * Find the places of all lines of the source called FILE in ELF, which is the file of FD. FUNCTIONS are
 * those of ELF and live as long as *OUT. What begins in one of the SPANS, which may be NULL, is no code
 * of its line. -EBADMSG: there are too many places.
 */
int line_places_read(struct ocp_ctx *ctx, struct elf_file *elf, int fd,
		     const struct functions *functions, const char *file, enum line_match match,
		     const struct line_spans *spans, struct line_places *out);
void line_places_free(struct line_places *places);

/*
 * Record why ELF has no line tables of OCaml code, after WHO, which names it: it was compiled without -g,
 * or stripped. Returns -ENODATA.
 */
int line_places_no_tables(struct ocp_ctx *ctx, struct elf_file *elf, const char *who);

/* The places of LINE; NULL: none. */
const struct line_place *line_places_find(const struct line_places *places, int line, size_t *n);

/* The nearest lines with places, before and after LINE; 0: none. */
void line_places_around(const struct line_places *places, int line, int *before, int *after);

/* ---- between the files of line_places ---- */

/*
 * LIST[0..N) are the rows of the lines, sorted by address, all of FUNCTION in FILE. Keep those that are
 * places, and fill in their cost and fault. Returns how many there are, or -ENOMEM.
 */
ptrdiff_t line_passes_reduce(struct code_file *file, const struct function *function,
			     struct line_place *list, size_t n);

#endif

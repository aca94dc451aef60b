/* SPDX-License-Identifier: MIT */
/*
 * Find the source lines that begin at given addresses, or list all rows of the line tables, from
 * the debug information.
 */
#ifndef ELF_LINES_H
#define ELF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"

struct source_line {
	uint64_t va;	  /* input: the link-time address of the instruction */
	const char *file; /* result: the path as given to the compiler; NULL: unknown */
	int line, column; /* result: line from 1, column from 0 */
};

/* If several lines begin at an address, which of them is the result? */
enum lines_rule {
	/* the last one: the line of the instruction itself; the earlier ones have no code */
	LINES_LAST,
	LINES_FIRST, /* the first one: the line of the function that begins at the address */
};

/*
 * Find the lines of ASKED[0..N), which must be sorted by address, in the file of FD, called NAME. A
 * line is found only if it begins exactly at the address. The file names point into *NAMES, which
 * the caller frees. If the debug information is missing or damaged, all lines are unknown; that is
 * not an error.
 */
int lines_find(struct ocp_ctx *ctx, int fd, const char *name, enum lines_rule rule,
	       struct source_line *asked, size_t n, char **names);

/* A row of the line table: a line begins, or continues, at an address. */
struct line_row {
	uint64_t va;
	const char *file; /* the path as given to the compiler, perhaps with `folder` before it */
	int line, column; /* line 0: no source line */
	bool is_statement;
	/*
	 * The compilation unit that contains the row: its number, its source file, and the folder
	 * in which the compiler ran. Each string may be NULL.
	 */
	size_t unit;
	const char *unit_file, *folder;
};

/*
 * Return 0 to continue. Any other value ends the walk, and lines_each() returns that value. The
 * strings are valid only during the call.
 */
typedef int (*line_row_fn)(void *data, const struct line_row *row);

/*
 * Call TAKE(DATA, row) with the rows of the file of FD, called NAME: one unit after the other, and
 * the rows of a unit in the order of addresses. Rows that cannot be read are left out. A file
 * without debug information is not an error.
 */
int lines_each(struct ocp_ctx *ctx, int fd, const char *name, line_row_fn take, void *data);

/* ---- the line of any address ----------------------------------------------------------------- */

/*
 * Find the source line of any instruction in the debug information. (lines_find() finds only lines
 * that begin at the instruction.)
 */

struct address_lines;

/* The source line of the instruction at an address. */
struct address_line {
	const char *file; /* path as given to the compiler, perhaps with the folder before it */
	int line;	  /* from 1 */
	uint64_t va;	  /* the start of the row of the line table that gives this line */
};

/*
 * Open the debug information of the file of FD, called NAME; FD must stay open. If the file has no
 * debug information, or the information is damaged, no lines will be found. The lines of a unit are
 * read when one of them is first needed.
 */
int address_lines_open(struct ocp_ctx *ctx, int fd, const char *name, struct address_lines **out);
void address_lines_close(struct address_lines *lines);

/*
 * Find the line of the link-time address VA. Return false if the line is unknown. FOUND->file is
 * valid until LINES is closed.
 */
bool address_lines_find(const struct address_lines *lines, uint64_t va, struct address_line *found);

/*
 * In the unit that contains FROM, find the first line that starts at or after FROM and before END.
 * Return false if there is no such line.
 */
bool address_lines_first(const struct address_lines *lines, uint64_t from, uint64_t end,
			 struct address_line *found);

#endif

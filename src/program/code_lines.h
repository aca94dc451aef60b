/* SPDX-License-Identifier: MIT */
/* The source lines of a program that items describe: see ITEM_LINE and ITEM_FILE_LINES. */
#ifndef PROGRAM_CODE_LINES_H
#define PROGRAM_CODE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include "code/functions.h"
#include "code/line_places.h"
#include "program/program.h"

/* Cache of the source files that were looked up. Initialise it with zeros. */
struct code_lines {
	struct code_source *list;
	size_t n;
};

void code_lines_free(struct code_lines *lines);

/*
 * Set *OUT to the places in the source file of the item TEXT, except those inside SPANS. The list
 * is empty if PROG has no such source. FUNCTIONS are the functions of PROG. Return -EINVAL if
 * several sources have the name in TEXT. *OUT is valid until the next call of this function, and
 * the list in it until code_lines_free().
 */
int code_lines_of(struct ocp_ctx *ctx, struct code_lines *lines, const struct ocp_program *prog,
		  const struct functions *functions, const char *text,
		  const struct line_spans *spans, const struct line_places **out);

/* Return true if PROG has the source file of the item TEXT; false also after an error. */
bool code_lines_has_source(struct ocp_ctx *ctx, const struct ocp_program *prog,
			   const struct functions *functions, const char *text);

/*
 * Record why PROG, which messages call WHERE, has no line TEXT. Return -ENOENT, -ENODATA or another
 * negative errno.
 */
int code_lines_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog,
		       const struct functions *functions, const char *text, const char *where);

#endif

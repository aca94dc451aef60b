/* SPDX-License-Identifier: MIT */
/*
 * Finds the source lines that items of the kinds ITEM_LINE and ITEM_FILE_LINES name, in one
 * program.
 */
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
 * Find the source file that the item TEXT names, and set *OUT to the places where its lines begin,
 * except the places inside SPANS. The list is empty if PROG has no such source. FUNCTIONS are the
 * functions of PROG. Return -EINVAL if several sources have the name in TEXT. *OUT is valid until
 * the next call of this function, and the list in it until code_lines_free().
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

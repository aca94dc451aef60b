/* SPDX-License-Identifier: MIT */
/* The source lines of a program that items describe: see ITEM_LINE and ITEM_FILE_LINES. */
#ifndef PROGRAM_CODE_LINES_H
#define PROGRAM_CODE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include "code/functions.h"
#include "code/line_places.h"
#include "program/program.h"

/* The sources of a program that were read. With all members 0 there are none. */
struct code_lines {
	struct code_source *list;
	size_t n;
};

void code_lines_free(struct code_lines *lines);

/*
 * The places, outside of SPANS, in the source of the item TEXT; none if PROG has no such source.
 * FUNCTIONS are those of PROG. -EINVAL: several sources have its name. *OUT is valid until the next
 * call, its list until code_lines_free().
 */
int code_lines_of(struct ocp_ctx *ctx, struct code_lines *lines, const struct ocp_program *prog,
		  const struct functions *functions, const char *text,
		  const struct line_spans *spans, const struct line_places **out);

/* Has PROG the source of the item TEXT? Errors count as no. */
bool code_lines_has_source(struct ocp_ctx *ctx, const struct ocp_program *prog,
			   const struct functions *functions, const char *text);

/* Record why PROG, called WHERE, has no line TEXT. Returns -ENOENT, -ENODATA or another error. */
int code_lines_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog,
		       const struct functions *functions, const char *text, const char *where);

#endif

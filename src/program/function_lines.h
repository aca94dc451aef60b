/* SPDX-License-Identifier: MIT */
/* Finds the functions that items of the form fn:FILE:LINE name, in one program. */
#ifndef PROGRAM_FUNCTION_LINES_H
#define PROGRAM_FUNCTION_LINES_H

#include <stddef.h>
#include "code/functions.h"
#include "program/program.h"

/*
 * Set *FOUND to the *N functions that TEXT names: the innermost function whose code has the line,
 * and its copies. The caller frees the list. *N is 0 if PROG has no code of the line. FUNCTIONS are
 * the functions of PROG. Returns -EINVAL, with a message that names the candidates, if several
 * sources have the name in TEXT, or if several functions begin at the same line; -ENOENT if the
 * line is only in functions into which it was inlined.
 */
int function_lines_find(struct ocp_ctx *ctx, const struct ocp_program *prog,
			const struct functions *functions, const char *text,
			const struct function ***found, size_t *n);

#endif

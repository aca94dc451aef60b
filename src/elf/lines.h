/* SPDX-License-Identifier: MIT */
/* Which line of source an instruction comes from, by the debug information. */
#ifndef ELF_LINES_H
#define ELF_LINES_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"

struct source_line {
	uint64_t va;	  /* asked for: the address of the instruction in the file */
	const char *file; /* answer: as the compiler was given it; NULL if it is not known */
	int line, column; /* the first line is 1; the first column, 0 */
};

/*
 * Find the lines of ASKED[0..N), sorted by address, in the file behind FD, called NAME. A line is
 * known only where one begins at the address. The names of files point into *NAMES, which the
 * caller frees. A file without debug information is no error; damaged information means that
 * nothing is found in it.
 */
int lines_find(struct ocp_ctx *ctx, int fd, const char *name, struct source_line *asked, size_t n,
	       char **names);

#endif

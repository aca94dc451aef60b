/* SPDX-License-Identifier: MIT */
/* The source line of an instruction, from the debug information. */
#ifndef ELF_LINES_H
#define ELF_LINES_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"

struct source_line {
	uint64_t va;	  /* question: the link-time address of the instruction */
	const char *file; /* answer: as given to the compiler; NULL: unknown */
	int line, column; /* the first line is 1, the first column 0 */
};

/* Of several lines that begin at an address, the answer is */
enum lines_rule {
	LINES_LAST,  /* that of the instruction itself; those before it made no code */
	LINES_FIRST, /* that of the function which begins here */
};

/*
 * Find the lines of ASKED[0..N), sorted by address, in the file of FD, called NAME. A line is known
 * only if it begins at the address. The file names point into *NAMES, which the caller frees. A
 * file without debug information is no error. In damaged debug information nothing is found.
 */
int lines_find(struct ocp_ctx *ctx, int fd, const char *name, enum lines_rule rule,
	       struct source_line *asked, size_t n, char **names);

#endif

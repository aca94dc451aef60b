/* SPDX-License-Identifier: MIT */
/*
 * Find the source line of an instruction in the debug information. The instruction may be anywhere
 * in the code of its line; lines.h is for instructions with which a line begins.
 */
#ifndef ELF_ADDRESS_LINES_H
#define ELF_ADDRESS_LINES_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"

struct address_lines;

/* The source line of the instruction at an address. */
struct address_line {
	const char *file; /* as given to the compiler, perhaps after the compiler's folder */
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
 * Find the first line that starts at or after FROM, and before END, in the unit that contains FROM.
 * Return false if there is none.
 */
bool address_lines_first(const struct address_lines *lines, uint64_t from, uint64_t end,
			 struct address_line *found);

#endif

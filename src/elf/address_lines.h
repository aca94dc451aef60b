/* SPDX-License-Identifier: MIT */
/* The source lines of any instructions, one by one, from the debug information. */
#ifndef ELF_ADDRESS_LINES_H
#define ELF_ADDRESS_LINES_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"

struct address_lines;

/* Where the instruction at an address comes from. */
struct address_line {
	const char *file; /* as given to the compiler, perhaps behind its folder */
	int line;	  /* the first is 1 */
	uint64_t va;	  /* where the line begins, or begins again: at the address, or before it */
};

/*
 * The file of FD, called NAME; FD must stay open. Without debug information, or with damaged one, no
 * line is found. A unit's lines are read when the first of them is asked for.
 */
int address_lines_open(struct ocp_ctx *ctx, int fd, const char *name, struct address_lines **out);
void address_lines_close(struct address_lines *lines);

/* False: no line is known of the link-time address VA. The text exists as long as LINES. */
bool address_lines_find(const struct address_lines *lines, uint64_t va, struct address_line *found);

/* The first line that begins at FROM or behind it, and before END. */
bool address_lines_first(const struct address_lines *lines, uint64_t from, uint64_t end,
			 struct address_line *found);

#endif

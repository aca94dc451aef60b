/* SPDX-License-Identifier: MIT */
/* Which line of source an address comes from, by an ELF file's debug information. */
#ifndef ELF_LINES_H
#define ELF_LINES_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"

struct line_of {
	uint64_t va;	  /* asked for: a link-time address */
	const char *file; /* answer: as the compiler was given it; NULL if it is not known */
	int line;
};

/*
 * Find the source lines of ASKED[0..N) in the file behind FD, called NAME. The names point into
 * *NAMES, which the caller frees. A file without debug information is no error, and damaged
 * information only means that nothing is found in it.
 */
int lines_find(struct ocp_ctx *ctx, int fd, const char *name, struct line_of *asked, size_t n,
	       char **names);

#endif

/* SPDX-License-Identifier: MIT */
/* Which line of source a site of the forked compilers comes from, by the debug information. */
#ifndef ELF_LINES_H
#define ELF_LINES_H

#include <stddef.h>
#include "base/ctx.h"
#include "elf/places.h"

/*
 * Find the places of ASKED[0..N), sorted by address, in the file behind FD, called NAME. The names
 * point into *NAMES, which the caller frees. A file without debug information is no error, and
 * damaged information only means that nothing is found in it.
 */
int lines_find(struct ocp_ctx *ctx, int fd, const char *name, struct place *const *asked, size_t n,
	       char **names);

#endif

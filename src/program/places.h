/* SPDX-License-Identifier: MIT */
/*
 * Finds the place in the source of each site: the line and column of the probe itself, not of the
 * code around the site. See places.c.
 */
#ifndef PROGRAM_PLACES_H
#define PROGRAM_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

struct probe_place {
	const struct site *site; /* input: a site that has code */
	/* result: path as given to the compiler; NULL if the place is unknown */
	const char *file;
	int line, column; /* result: lines count from 1, columns from 0 */
};

/*
 * The table that the post-linker writes to a file (src/link/places.c): a note in a section that is
 * not loaded and that strip(1) keeps.
 */
#define PLACES_SECTION ".note.ocaml-probes"
#define PLACES_OWNER   "ocaml-probes"
enum {
	/* high, since readelf(1) gives low type numbers a meaning of its own */
	PLACES_TYPE = 0x100,
	PLACES_HEAD_BYTES = 16,
	PLACES_ENTRY_BYTES = 20,
};

/*
 * Fill in the places of ASKED[0..N), whose sites belong to PROG. The file names point into *NAMES,
 * which the caller frees, and into PROG. It is not an error if no place is known. A damaged table
 * is ignored, with a warning in the log.
 */
int places_find(const struct ocp_program *prog, struct probe_place *asked, size_t n, char **names);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The place in the source of the probe of a site (of the probe itself, not of the code around it).
 * See places.c.
 */
#ifndef PROGRAM_PLACES_H
#define PROGRAM_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

struct place {
	const struct site *site; /* question: a site with code */
	const char *file;	 /* answer: as given to the compiler; NULL: unknown */
	int line, column;	 /* the first line is 1, the first column 0 */
};

/*
 * The table that the post-linker writes to a file (src/link/places.c): a note in a section that is
 * not loaded and that strip(1) keeps.
 */
#define PLACES_SECTION ".note.ocaml-probes"
#define PLACES_OWNER   "ocaml-probes"
enum {
	PLACES_TYPE = 0x100, /* readelf(1) interprets low types */
	PLACES_HEAD_BYTES = 16,
	PLACES_ENTRY_BYTES = 20,
};

/*
 * Find the places of ASKED[0..N), sites of PROG. The file names point into *NAMES, which the caller
 * frees, and into PROG. A file without places is no error. A damaged table is ignored, with a
 * warning in the log.
 */
int places_find(const struct ocp_program *prog, struct place *asked, size_t n, char **names);

#endif

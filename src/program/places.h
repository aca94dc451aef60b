/* SPDX-License-Identifier: MIT */
/*
 * Finds the place in the source of each use of a probe: the line and column of the probe itself,
 * not of the code around it. See places.c.
 */
#ifndef PROGRAM_PLACES_H
#define PROGRAM_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

struct probe_place {
	const struct site *site; /* input: a site that has code */
	const char *file;	 /* result: path as given to the compiler; NULL: unknown */
	int line, column;	 /* result: lines count from 1, columns from 0 */
};

/*
 * The table that the post-linker writes to a file (src/link/places.c): a note in a section that is
 * not loaded and that strip(1) keeps.
 */
#define PLACES_SECTION ".note.ocaml-probes"
#define PLACES_OWNER   "ocaml-probes"
enum {
	PLACES_TYPE = 0x100, /* readelf(1) interprets low type numbers, so use a high one */
	PLACES_HEAD_BYTES = 16,
	PLACES_ENTRY_BYTES = 20,
};

/*
 * Fill in the places of ASKED[0..N), whose sites belong to PROG. The file names point into *NAMES,
 * which the caller frees, and into PROG. A file without places is not an error. A damaged table is
 * ignored, with a warning in the log.
 */
int places_find(const struct ocp_program *prog, struct probe_place *asked, size_t n, char **names);

#endif

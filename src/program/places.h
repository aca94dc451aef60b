/* SPDX-License-Identifier: MIT */
/*
 * Where in the source the probe of a site stands: not the code around it, the probe itself. See
 * places.c for who says so.
 */
#ifndef ELF_PLACES_H
#define ELF_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

struct place {
	const struct site *site; /* asked for: a site with code */
	const char *file;	 /* answer: as the compiler was given it; NULL if it is not known */
	int line, column;	 /* the first line is 1, the first column 0 */
};

/*
 * The table that the post-linker leaves in a file: a note in a section that is not loaded and that
 * strip keeps. src/link/places.c writes it.
 */
#define PLACES_SECTION ".note.ocaml-probes"
#define PLACES_OWNER   "ocaml-probes"
enum {
	PLACES_TYPE = 0x100, /* readelf gives low types a meaning of its own */
	PLACES_HEAD_BYTES = 16,
	PLACES_ENTRY_BYTES = 20,
};

/*
 * Find the places of ASKED[0..N), sites of PROG. The names of files point into *NAMES, which the
 * caller frees, and into PROG. A file that does not say is no error; a damaged table is a warning
 * in the log, and nothing of it is believed.
 */
int places_find(const struct ocp_program *prog, struct place *asked, size_t n, char **names);

#endif

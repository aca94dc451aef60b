/* SPDX-License-Identifier: MIT */
/*
 * Reads the table that the post-linker writes for the arguments of probes: their names, their
 * types, and the places that stapsdt notes cannot express.
 */
#ifndef PROGRAM_ARG_NOTES_H
#define PROGRAM_ARG_NOTES_H

#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

/* The table is a note in a section that is not loaded and that strip(1) keeps. */
#define ARG_NOTES_SECTION ".note.ocaml-probes.args"
#define ARG_NOTES_OWNER	  "ocaml-probes"
enum {
	ARG_NOTES_TYPE = 0x101,
	ARG_NOTES_HEAD_BYTES = 16,
	ARG_NOTES_ENTRY_BYTES = 16,
};

/*
 * Set `arg_names` of the sites of PROG that are in the table. Also set `args` of a site if the
 * table has operands for it. BASE_VA is the address of section .stapsdt.base, or 0 if the section
 * is missing. Call this function after all sites were resolved. A file without a table is not an
 * error; a damaged table is ignored, with a warning in the log.
 */
int arg_notes_read(struct ocp_program *prog, uint64_t base_va);

#endif

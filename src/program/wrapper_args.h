/* SPDX-License-Identifier: MIT */
/*
 * Correct the operands of arguments in the notes of the forked OCaml compilers: see wrapper_args.c.
 */
#ifndef PROGRAM_WRAPPER_ARGS_H
#define PROGRAM_WRAPPER_ARGS_H

#include "program/program.h"

/* The text of an operand whose place is unknown. No compiler writes this text into a note. */
#define UNKNOWN_PLACE "?"

/* The corrected operands of a site whose note is wrong. */
struct corrected_args {
	const char *note; /* the operands in the note */
	/* a phrase that says why some places are unknown; NULL if all are known */
	const char *fault;
	char text[]; /* the corrected operands */
};

/*
 * Correct `args` of the sites of PROG whose notes are wrong. The code of all sites must have been
 * checked before.
 */
int wrapper_args_correct(struct ocp_program *prog);

#endif

/* SPDX-License-Identifier: MIT */
/* Correcting the arguments in the notes of the forked compilers: see wrapper_args.c. */
#ifndef PROGRAM_WRAPPER_ARGS_H
#define PROGRAM_WRAPPER_ARGS_H

#include "program/program.h"

/*
 * The text for the place of an operand if it is unknown. It does not occur in the notes of
 * compilers.
 */
#define UNKNOWN_PLACE "?"

/* The operands of a site whose note is wrong. */
struct corrected_args {
	const char *note;  /* the note's operands */
	const char *fault; /* a phrase: why some places are unknown; NULL: all are known */
	char text[];	   /* the operands */
};

/* Correct `args` of the sites of PROG that need it. All sites must have been checked. */
int wrapper_args_correct(struct ocp_program *prog);

#endif

/* SPDX-License-Identifier: MIT */
/* Arguments that the notes of the forked compilers place wrongly: see wrapper_args.c. */
#ifndef ELF_WRAPPER_ARGS_H
#define ELF_WRAPPER_ARGS_H

#include "program/program.h"

/*
 * What stands instead of an operand's place when that is not known. The notes of compilers have
 * nothing of the kind.
 */
#define UNKNOWN_PLACE "?"

/* The operands of a site where they are not what the note says. */
struct corrected_args {
	const char *note;  /* the note's operands */
	const char *fault; /* why some places are unknown, a phrase; NULL: all are known */
	char text[];	   /* the operands */
};

/* Correct `args` of those sites of PROG that need it. All sites were checked. */
int wrapper_args_correct(struct ocp_program *prog);

#endif

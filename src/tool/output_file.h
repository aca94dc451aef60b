/* SPDX-License-Identifier: MIT */
/*
 * -o FILE: what a command prints as data goes to FILE, and standard output remains for the program
 * that the command starts. As for the files of `profile`, an existing FILE is replaced only when
 * the new one is complete; until then, the new one is FILE.PID.tmp.
 */
#ifndef TOOL_OUTPUT_FILE_H
#define TOOL_OUTPUT_FILE_H

#include "cli/cli.h"

struct profile_file;

struct output_file {
	const struct options *options;
	struct profile_file *file; /* NULL: the data goes to standard output */
	FILE *before;		   /* the stream of standard output */
};

/*
 * Begin to write to the file of -o in OPTIONS; without -o, do nothing. Until output_file_end(), the
 * variable `stdout` is the stream of the file, while descriptor 1, which other programs inherit, is
 * unchanged. Returns EXIT_DONE, or another code after printing the error.
 */
int output_file_begin(struct output_file *output, const struct options *options);

/*
 * Complete the file, or remove it if nothing was written and CODE is an error. Return CODE, or the
 * code of the error if CODE is EXIT_DONE and the file cannot be completed. Calling this again, or
 * with all members 0, does nothing.
 */
int output_file_end(struct output_file *output, int code);

#endif

// SPDX-License-Identifier: MIT
#include "tool/output_file.h"

#include <stdio.h>

#include "tool/profile_files.h"

int output_file_begin(struct output_file *output, const struct options *options)
{
	int err;

	*output = (struct output_file){ .options = options };
	if (!options->output)
		return EXIT_DONE;
	err = profile_file_open(options->ctx, options->output, &output->file);
	if (err)
		return say_error(options->ctx, err);
	/* The GNU C library lets a program assign `stdout`, which printf() and puts() use. */
	fflush(stdout);
	output->before = stdout;
	stdout = profile_file_stream(output->file);
	return EXIT_DONE;
}

int output_file_end(struct output_file *output, int code)
{
	struct profile_file *file = output->file;
	bool is_empty;
	int err;

	if (!file)
		return code;
	output->file = NULL;
	stdout = output->before;
	is_empty = ftello(profile_file_stream(file)) <= 0;
	if (is_empty && code != EXIT_DONE) {
		profile_file_abandon(file);
		return code;
	}
	err = profile_file_finish(file);
	if (!err && !output->options->quiet)
		say("%s: written", output->options->output);
	if (!err)
		return code;
	err = say_error(output->options->ctx, err);
	return code == EXIT_DONE ? err : code;
}

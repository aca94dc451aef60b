// SPDX-License-Identifier: MIT
/* Run a command: make a ctx that logs to stderr, parse the options, call the command. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/operands.h"

static void write_log_line(void *data, enum ocp_log_level level, const char *line)
{
	const struct options *options = data;

	if (level == OCP_LOG_WARN && !options->quiet)
		say("warning: %s", line);
	else if (level != OCP_LOG_WARN && options->verbose)
		say("%s", line);
}

void reserve_standard_descriptors(void)
{
	int fd;

	/*
	 * open() returns the lowest free number. Descriptors opened with O_PATH cannot be read or
	 * written.
	 */
	do
		fd = open("/dev/null", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int flush_stdout(int code)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || code != EXIT_DONE)
		return code;
	say("standard output: %s", strerror(errno));
	return EXIT_FAILED;
}

int run_command(const struct command *command, int argc, char **argv)
{
	struct options options = { .ctx = ocp_ctx_new() };
	int code;

	if (!options.ctx) {
		say("out of memory");
		return EXIT_FAILED;
	}
	ocp_ctx_set_log(options.ctx, write_log_line, &options, OCP_LOG_DEBUG);
	code = options_parse(command, argc, argv, &options);
	if (code == EXIT_DONE && options.help)
		fputs(command->help->text, stdout);
	else if (code == EXIT_DONE && options.version)
		puts(ocp_version());
	else if (code == EXIT_DONE)
		code = options_find_process(command, &options);
	if (code == EXIT_DONE && !options.help && !options.version)
		code = command->run(&options);
	options_free(&options);
	ocp_ctx_free(options.ctx);
	return code;
}

// SPDX-License-Identifier: MIT
/*
 * The tool: picks the subcommand, says errors. What the commands do is in the library; how they are
 * asked for it is in options.c.
 */
#include "tool/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

static const struct command *const commands[] = {
	&command_attach, &command_bpftrace, &command_detach, &command_doctor,
	&command_info,	 &command_list,	    &command_read,   &command_trace,
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void log_line(void *data, enum ocp_log_level level, const char *line)
{
	const struct options *options = data;

	if (level == OCP_LOG_WARN && !options->quiet)
		say("warning: %s", line);
	else if (level != OCP_LOG_WARN && options->verbose)
		say("%s", line);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	struct suggestion suggestion = suggestion_for(name);

	for (size_t i = 0; i < N_COMMANDS; i++)
		suggestion_offer(&suggestion, commands[i]->name);
	suggestion_offer(&suggestion, "help");
	suggestion_offer(&suggestion, "version");
	say("'%s': no such command", name);
	if (suggestion.best)
		fprintf(stderr, "hint: did you mean '%s'?\n", suggestion.best);
	else
		fputs("hint: ocaml-probes help\n", stderr);
	return EXIT_USAGE;
}

static int print_help(const char *name)
{
	const struct command *command;

	if (!name || strcmp(name, "help") == 0 || strcmp(name, "version") == 0) {
		puts("ocaml-probes: switch and measure the probes of running OCaml programs\n");
		for (size_t i = 0; i < N_COMMANDS; i++)
			printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
		puts("  version  print the version\n"
		     "  help     this list; help COMMAND describes one\n\n"
		     "Options are written -flag or --flag.");
		return EXIT_DONE;
	}
	command = find_command(name);
	if (!command)
		return unknown_command(name);
	printf("%s\n\n%s", command->summary, command->usage);
	return EXIT_DONE;
}

/* Output that did not get out is a failure: a full disk, a closed pipe. */
static int flush_stdout(int code)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || code != EXIT_DONE)
		return code;
	say("standard output: %s", strerror(errno));
	return EXIT_FAILED;
}

static int run_command(const struct command *command, int argc, char **argv)
{
	struct options options = { .ctx = ocp_ctx_new() };
	int code;

	if (!options.ctx) {
		say("out of memory");
		return EXIT_FAILED;
	}
	ocp_ctx_set_log(options.ctx, log_line, &options, OCP_LOG_DEBUG);
	code = options_parse(command, argc, argv, &options);
	if (code == EXIT_DONE)
		code = options.help ? print_help(command->name) : command->run(&options);
	options_free(&options);
	ocp_ctx_free(options.ctx);
	return code;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct command *command;

	if (!name) {
		say("no command given");
		fputs("hint: ocaml-probes help\n", stderr);
		return EXIT_USAGE;
	}
	name += strspn(name, "-");
	if (strcmp(name, "help") == 0 || strcmp(name, "h") == 0)
		return flush_stdout(print_help(argc > 2 ? argv[2] : NULL));
	if (strcmp(name, "version") == 0) {
		puts(ocp_version());
		return flush_stdout(EXIT_DONE);
	}
	command = find_command(argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	return flush_stdout(run_command(command, argc - 1, argv + 1));
}

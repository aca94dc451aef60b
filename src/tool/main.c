// SPDX-License-Identifier: MIT
/*
 * The tool selects the subcommand, whose name may be abbreviated, and prints errors. The library
 * implements the commands; src/cli parses their options.
 *
 * The dashboards are separate programs in the same directory, as git has separate programs for its
 * commands. So the commands that count do not load the libraries of a web server, and a service
 * manager can give privileges to `serve` alone.
 */
#include "tool/commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"

const struct tool_command tool_commands[] = {
	{ "annotate", &help_annotate, &command_annotate },
	{ "attach", &help_attach, &command_attach },
	{ "bpftrace", &help_bpftrace, &command_bpftrace },
	{ "detach", &help_detach, &command_detach },
	{ "doctor", &help_doctor, &command_doctor },
	{ "functions", &help_functions, &command_functions },
	{ "gc", &help_gc, &command_gc },
	{ "info", &help_info, &command_info },
	{ "list", &help_list, &command_list },
	{ "memprof", &help_memprof, &command_memprof },
	{ "profile", &help_profile, &command_profile },
	{ "read", &help_read, &command_read },
	{ "record", &help_record, &command_record },
	{ "report", &help_report, &command_report },
	{ "serve", &help_serve, NULL },
	{ "top", &help_top, NULL },
	{ "trace", &help_trace, &command_trace },
	{ 0 },
};

const struct tool_command *find_command(const char *name)
{
	for (const struct tool_command *command = tool_commands; command->name; command++)
		if (strcmp(command->name, name) == 0)
			return command;
	return NULL;
}

struct abbreviation abbreviated_command(const char *word)
{
	struct abbreviation found = abbreviation_of(word, strlen(word));

	for (const struct tool_command *command = tool_commands; command->name; command++)
		abbreviation_offer(&found, "", command->name);
	abbreviation_offer(&found, "", "help");
	abbreviation_offer(&found, "", "version");
	return found;
}

/*
 * Execute the dashboard ARGV[0], which is in the directory of this program. Replace ARGV[0] by the
 * dashboard's file name, which ps and pgrep then show.
 */
static int run_dashboard(char **argv)
{
	const char *name = argv[0];
	char path[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *file;
	size_t left;

	path[bytes > 0 ? bytes : 0] = '\0';
	file = strrchr(path, '/');
	file = file ? file + 1 : NULL;
	left = file ? sizeof(path) - (size_t)(file - path) : 0;
	if (!file || (size_t)snprintf(file, left, "ocaml-probes-%s", name) >= left) {
		say("/proc/self/exe: cannot locate ocaml-probes-%s", name);
		return EXIT_FAILED;
	}
	argv[0] = file;
	execv(path, argv);
	say("%s: %s", path, strerror(errno));
	fprintf(stderr,
		"hint: `ocaml-probes %s` is a separate program; install it beside ocaml-probes\n",
		name);
	return EXIT_FAILED;
}

int unknown_command(const char *name)
{
	const struct abbreviation found = abbreviated_command(name);
	struct suggestion suggestion = suggestion_for(name);

	for (const struct tool_command *command = tool_commands; command->name; command++)
		suggestion_offer(&suggestion, command->name);
	suggestion_offer(&suggestion, "help");
	suggestion_offer(&suggestion, "version");
	if (abbreviation_is_ambiguous(&found)) {
		say("'%s': ambiguous command: %s", name, found.list);
		return EXIT_USAGE;
	}
	say("'%s': no such command", name);
	if (suggestion.best)
		fprintf(stderr, "hint: did you mean '%s'?\n", suggestion.best);
	else
		fputs("hint: ocaml-probes help\n", stderr);
	return EXIT_USAGE;
}

/* Run the command NAME, the full name of a command, with the words ARGV; ARGV[0] is the command. */
static int run_named(const char *name, int argc, char **argv)
{
	const struct tool_command *command;

	if (strcmp(name, "help") == 0)
		return print_help(argc - 1, argv + 1);
	if (strcmp(name, "version") == 0)
		return print_version(argc - 1, argv + 1);
	command = find_command(name);
	if (command->command)
		return run_command(command->command, argc, argv);
	argv[0] = (char *)command->name;
	return run_dashboard(argv);
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL, *name;
	struct abbreviation found;

	reserve_standard_descriptors();
	if (!word) {
		say("no command given");
		fputs("hint: ocaml-probes help\n", stderr);
		return EXIT_USAGE;
	}
	if (asks_for_help(word))
		return flush_stdout(print_help(argc - 2, argv + 2));
	if (asks_for_version(word))
		return flush_stdout(print_version(argc - 1, argv + 1));
	if (strcmp(word, "complete") == 0)
		return flush_stdout(complete(argc - 2, argv + 2));
	/* `ocaml-probes PID` is short for `ocaml-probes report PID`. */
	if (is_number(word))
		return flush_stdout(run_command(&command_report, argc, argv));
	found = abbreviated_command(word);
	name = abbreviation_name(&found);
	return name ? flush_stdout(run_named(name, argc - 1, argv + 1)) : unknown_command(word);
}

// SPDX-License-Identifier: MIT
/*
 * The tool selects the subcommand and prints errors. The library implements the commands; src/cli
 * parses their options.
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

static int unknown_command(const char *name)
{
	struct suggestion suggestion = suggestion_for(name);

	for (const struct tool_command *command = tool_commands; command->name; command++)
		suggestion_offer(&suggestion, command->name);
	suggestion_offer(&suggestion, "help");
	suggestion_offer(&suggestion, "version");
	say("'%s': no such command", name);
	if (suggestion.best)
		fprintf(stderr, "hint: did you mean '%s'?\n", suggestion.best);
	else
		fputs("hint: ocaml-probes help\n", stderr);
	return EXIT_USAGE;
}

static bool is_any_of(const char *word, const char *const *words)
{
	while (*words && strcmp(*words, word) != 0)
		words++;
	return *words;
}

static bool asks_for_help(const char *word)
{
	return is_any_of(word, (const char *const[]){ "help", "-help", "--help", "-h", NULL });
}

static bool asks_for_version(const char *word)
{
	return is_any_of(word,
			 (const char *const[]){ "version", "-version", "--version", "-V", NULL });
}

/*
 * Print the manual page of command NAME. The page of the tool itself describes `help` and
 * `version`.
 */
static int print_help(const char *name)
{
	const struct tool_command *command;

	if (!name || asks_for_help(name) || asks_for_version(name)) {
		fputs(help_tool.text, stdout);
		return EXIT_DONE;
	}
	command = find_command(name);
	if (!command)
		return unknown_command(name);
	fputs(command->help->text, stdout);
	return EXIT_DONE;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct tool_command *command;

	reserve_standard_descriptors();
	if (!name) {
		say("no command given");
		fputs("hint: ocaml-probes help\n", stderr);
		return EXIT_USAGE;
	}
	if (asks_for_help(name))
		return flush_stdout(print_help(argc > 2 ? argv[2] : NULL));
	if (asks_for_version(name)) {
		if (argc > 2 && asks_for_help(argv[2]))
			return flush_stdout(print_help(NULL));
		puts(ocp_version());
		return flush_stdout(EXIT_DONE);
	}
	if (strcmp(name, "complete") == 0)
		return flush_stdout(complete(argc - 2, argv + 2));
	/* `ocaml-probes PID` is short for `ocaml-probes report PID`. */
	if (is_number(name))
		return flush_stdout(run_command(&command_report, argc, argv));
	command = find_command(name);
	if (!command)
		return unknown_command(name);
	if (!command->command)
		return run_dashboard(argv + 1);
	return flush_stdout(run_command(command->command, argc - 1, argv + 1));
}

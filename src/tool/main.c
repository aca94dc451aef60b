// SPDX-License-Identifier: MIT
/*
 * The tool: picks the subcommand, says errors. What the commands do is in the library; how they are
 * asked for it is in src/cli.
 *
 * The dashboards are programs of their own beside this one, as git's are: whoever counts shall not
 * wait for the libraries of a web server to be loaded, and a service manager can give `serve` its
 * privileges alone.
 */
#include "tool/commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"

static const struct command *const commands[] = {
	&command_attach, &command_bpftrace, &command_detach, &command_doctor,
	&command_info,	 &command_list,	    &command_read,   &command_trace,
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* A program called ocaml-probes-NAME. */
struct dashboard {
	const char *name, *summary;
};

static const struct dashboard dashboards[] = {
	{ "serve", "metrics for Prometheus, and a page of live graphs, on a local port" },
	{ "top", "a live view of probes by rate, in the terminal" },
};

#define N_DASHBOARDS (sizeof(dashboards) / sizeof(dashboards[0]))

static bool is_dashboard(const char *name)
{
	for (size_t i = 0; i < N_DASHBOARDS; i++)
		if (strcmp(dashboards[i].name, name) == 0)
			return true;
	return false;
}

/*
 * Become the dashboard ARGV[0], which is in the folder that this program is in. Its own name takes
 * the place of ARGV[0], so that ps and pgrep show it.
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
		say("/proc/self/exe: it is not known where ocaml-probes-%s is", name);
		return EXIT_FAILED;
	}
	argv[0] = file;
	execv(path, argv);
	say("%s: %s", path, strerror(errno));
	fprintf(stderr, "hint: `ocaml-probes %s` is a program beside ocaml-probes; install both\n",
		name);
	return EXIT_FAILED;
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
	for (size_t i = 0; i < N_DASHBOARDS; i++)
		suggestion_offer(&suggestion, dashboards[i].name);
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
		for (size_t i = 0; i < N_DASHBOARDS; i++)
			printf("  %-8s %s\n", dashboards[i].name, dashboards[i].summary);
		puts("  version  print the version\n"
		     "  help     this list; help COMMAND describes one\n\n"
		     "Options are written -flag or --flag.");
		return EXIT_DONE;
	}
	if (is_dashboard(name))
		return run_dashboard((char *[]){ (char *)name, "--help", NULL });
	command = find_command(name);
	if (!command)
		return unknown_command(name);
	print_command_help(command);
	return EXIT_DONE;
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
	if (is_dashboard(argv[1]))
		return run_dashboard(argv + 1);
	command = find_command(argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	return flush_stdout(run_command(command, argc - 1, argv + 1));
}

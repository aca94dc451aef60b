/* SPDX-License-Identifier: MIT */
/*
 * Room tool: ocaml-probes and its commands.
 * In: argv.
 * Out: tables, JSON, CSV, files.
 * Callers: none, since it is a program.
 */
/* The subcommands of ocaml-probes. */
#ifndef TOOL_COMMANDS_H
#define TOOL_COMMANDS_H

#include "cli/cli.h"

struct tool_command {
	const char *name;
	const struct help *help;
	const struct command *command; /* NULL: NAME is a separate program, ocaml-probes-NAME */
};

/* All commands, sorted by name; the last name is NULL. */
extern const struct tool_command tool_commands[];

/* Return the command NAME, or NULL if there is none. */
const struct tool_command *find_command(const char *name);

extern const struct command command_annotate, command_attach, command_bpftrace, command_detach,
	command_doctor, command_functions, command_gc, command_info, command_list, command_memprof,
	command_profile, command_read, command_report, command_trace;

/*
 * Completion for shells: print the candidates for the last of the N WORDS after "ocaml-probes". See
 * complete.c.
 */
int complete(int n, char **words);

#endif

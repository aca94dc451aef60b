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

#include "base/abbreviation.h"
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

/* Return the command that WORD stands for, among tool_commands, "help" and "version". */
struct abbreviation abbreviated_command(const char *word);

/* Print that no command, or more than one, has the name NAME. Return EXIT_USAGE. */
int unknown_command(const char *name);

extern const struct command command_annotate, command_attach, command_bpftrace, command_detach,
	command_doctor, command_functions, command_gc, command_info, command_list, command_memprof,
	command_profile, command_read, command_record, command_report, command_trace;

/*
 * The commands `help` and `version` (cmd_help.c) with the N WORDS that follow them. The first word
 * of print_version() is the word that asked for the version: "version", "-version", "-build-info".
 * Return an exit code.
 */
int print_help(int n, char **words);
int print_version(int n, char **words);
/* Return true if WORD, the first word, asks for help, or for the version or the build. */
bool asks_for_help(const char *word);
bool asks_for_version(const char *word);

/*
 * Completion for shells: print the candidates for the last of the N WORDS after "ocaml-probes". See
 * complete.c.
 */
int complete(int n, char **words);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the manual page of a program or a command says: --help prints it, the command line is parsed
 * by it, and the shells complete by it. tools/man/help.awk makes these objects when the programs
 * are built, from tools/man/ocaml-probes-NAME.1: an option is added or described there.
 */
#ifndef BASE_HELP_H
#define BASE_HELP_H

struct help {
	const char *summary; /* one line */
	/*
	 * The options as the page writes them, a line each: "-pid PID", "--count[=NAMES|RE]",
	 * "--json". What follows the name is the kind of its value.
	 */
	const char *options;
	const char *text; /* for --help */
};

extern const struct help help_tool, help_attach, help_bpftrace, help_detach, help_doctor, help_info,
	help_link, help_list, help_read, help_serve, help_top, help_trace;

#endif

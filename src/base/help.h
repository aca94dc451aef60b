/* SPDX-License-Identifier: MIT */
/*
 * The contents of the manual page of a program or a command. --help prints it; the command-line
 * parser and the completion of the shells take the options from it. During the build,
 * tools/man/help.awk makes these objects from tools/man/ocaml-probes-NAME.1. To add or describe an
 * option, edit that manual page.
 */
#ifndef BASE_HELP_H
#define BASE_HELP_H

struct help {
	const char *summary; /* one line */
	/*
	 * The options as in the page, one per line: "-pid PID", "--count[=NAMES|RE]", "--json".
	 * After the name of an option comes the kind of its value.
	 */
	const char *options;
	const char *text; /* the text that --help prints */
};

extern const struct help help_tool, help_annotate, help_attach, help_bpftrace, help_detach,
	help_doctor, help_functions, help_gc, help_info, help_link, help_list, help_memprof,
	help_profile, help_read, help_record, help_report, help_serve, help_top, help_trace;

#endif

/* SPDX-License-Identifier: MIT */
/* Code shared by the command-line programs: exit codes, options, messages. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/help.h"
#include "cli/measure_options.h"
#include "cli/table_options.h"
#include "measure/request.h"
#include "ocaml_probes.h"

/* Documented in tools/man/shared/exit_status.mdoc. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,      /* any other failure */
	EXIT_USAGE = 2,	      /* usage error, unknown probe, contradictory actions */
	EXIT_PRIVILEGE = 3,   /* missing privilege */
	EXIT_KERNEL = 4,      /* the kernel lacks a feature for measuring */
	EXIT_GONE = 5,	      /* no such process, or it exited too early */
	EXIT_BUSY = 6,	      /* another program traces the process, or it does not stop */
	EXIT_OVER_BUDGET = 7, /* measuring exceeded --budget and was stopped */
};

struct options {
	struct ocp_ctx *ctx;
	struct ocp_actions *actions;
	const char *actions_flag;  /* the last flag for actions; NULL: none */
	unsigned int update_flags; /* OCP_FORCE, OCP_ATOMICALLY */
	unsigned int repair_flags; /* OCP_COMPLETE */
	pid_t *pids;		   /* without duplicates */
	size_t n_pids;
	pid_t pid;	   /* the first of pids; 0: not given */
	const char *exe;   /* of --exe and -prog, see takes_file in struct command */
	const char *prog;  /* like exe; NULL: not given */
	char *const *args; /* the words after the options (takes_words), or after "--" */
	int n_args;
	struct measure_request request; /* what to measure; empty: nothing */
	bool csv;
	struct table_view view;
	bool time_of_day;	   /* print the time of the day */
	const char *keep;	   /* NULL: not given */
	enum engine_choice engine; /* of --engine */
	bool json, verbose, quiet, help, version;
	bool sites, fix, wait, kept, follow;
	int64_t for_ns, interval_ns; /* 0: not given */
	void *own;		     /* data of the command, for set_own */
};

struct command {
	const char *name;
	const struct help *help; /* the manual page, which also defines the options */
	bool many_pids;		 /* -pid may be repeated */
	bool takes_words;	 /* words after the options are args, without -- */
	bool takes_program;	 /* words after -- are a program and its arguments */
	bool watches;		 /* it measures programs that come and go: see watch/watch.h */
	/*
	 * --exe and -prog mean the same. With takes_file the value becomes `prog`: the file itself.
	 * Otherwise it becomes `exe`: the processes that run the file. With takes_running, one
	 * process must run the file, and becomes `pid`.
	 */
	bool takes_file, takes_running;
	/*
	 * Do OPTIONS give WORD, which is all digits, a meaning other than a process id? NULL:
	 * never.
	 */
	bool (*keeps_number)(const struct options *options, const char *word);
	int (*run)(struct options *options);
	/*
	 * Take the flag NAME, which is handled by the command itself, with VALUE (NULL: none).
	 * Returns EXIT_DONE, or another code after printing the error.
	 */
	int (*set_own)(const struct command *command, struct options *options, const char *name,
		       const char *value);
};

/*
 * Parse ARGV (ARGV[0] is the command's name) for COMMAND. The caller sets the ctx of OPTIONS, and
 * frees OPTIONS with options_free. Returns EXIT_DONE, or EXIT_USAGE after printing the error.
 */
int options_parse(const struct command *command, int argc, char **argv, struct options *options);
void options_free(struct options *options);

/*
 * Add the actions of the flag NAME with VALUE. Returns EXIT_DONE, or another code after printing
 * the error.
 */
int options_add_actions(const struct command *command, struct options *options, const char *name,
			const char *value);

/* Add PID, unless it is there. Returns EXIT_DONE, or EXIT_FAILED after printing the error. */
int options_add_pid(struct options *options, pid_t pid);

/*
 * Parse ARGV (ARGV[0] is the command's name) and run COMMAND. Log messages of its ctx go to
 * stderr. Returns an exit code.
 */
int run_command(const struct command *command, int argc, char **argv);
/*
 * Find the option NAME in the manual page HELP. Return its text without the dashes, up to a
 * newline: "count[=NAMES|RE]". NULL: the page has no such option.
 */
const char *find_help_option(const struct help *help, const char *name);
/* Does the manual page of COMMAND have the option FLAG? */
bool command_takes(const struct command *command, const char *flag);
/* Return the dashes that the manual page of COMMAND writes before FLAG: "--" or "-". */
const char *flag_dashes(const struct command *command, const char *flag);
/*
 * Reserve those of the descriptors 0, 1 and 2 that are closed. Reading and writing them still
 * fails. Otherwise a file that is opened later, such as the memory of a process, would get one of
 * these numbers, and messages would be written to it.
 */
void reserve_standard_descriptors(void);

/*
 * Flush stdout. Returns CODE, or EXIT_FAILED after printing the error if output was lost (as on a
 * full disk).
 */
int flush_stdout(int code);

/*
 * Print that PROC has no probes, if that is so, and if stderr is a terminal or -verbose is given.
 * Scripts get empty output and no message.
 */
void say_no_probes(const struct options *options, const struct ocp_process *proc);

/* Print a hint, after a message that a native program has no probes: functions need none. */
void say_functions_hint(const struct options *options);

/* Print "ocaml-probes: TEXT" to stderr. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * Print TEXT to stdout, with control characters as '?'. Operands and paths come from other
 * programs and must not control the terminal.
 */
void print_text(const char *text);
/* Print a usage error and a reference to the help. Returns EXIT_USAGE. */
int say_usage(const struct command *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Print the ctx's error and hint. Returns the exit code for the library's error code ERR. */
int say_error(const struct ocp_ctx *ctx, int err);
/* Like say_error(), with "OPERAND: " before the error (NULL: nothing). */
int say_error_of(const char *operand, const struct ocp_ctx *ctx, int err);

#endif

/* SPDX-License-Identifier: MIT */
/* What the command-line programs share: exit codes, options, messages. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/help.h"
#include "cli/measure_options.h"
#include "measure/request.h"
#include "ocaml_probes.h"

/* Documented in tools/man/shared/exit_status.mdoc. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,      /* what no other code stands for */
	EXIT_USAGE = 2,	      /* wrong command line, unknown probe, actions that contradict */
	EXIT_PRIVILEGE = 3,   /* a privilege is missing */
	EXIT_KERNEL = 4,      /* the kernel lacks something that counting needs */
	EXIT_GONE = 5,	      /* no such process, or it ended before the work was done */
	EXIT_BUSY = 6,	      /* the process is traced by somebody else, or does not stop */
	EXIT_OVER_BUDGET = 7, /* measuring cost more than --budget allows, and was stopped */
};

struct options {
	struct ocp_ctx *ctx;
	struct ocp_actions *actions;
	const char *actions_flag;  /* the last that asked for actions; NULL: none did */
	unsigned int update_flags; /* OCP_FORCE, OCP_ATOMICALLY */
	unsigned int repair_flags; /* OCP_COMPLETE */
	pid_t *pids;		   /* each once */
	size_t n_pids;
	pid_t pid;	   /* the first of them; 0: not given */
	const char *exe;   /* NULL: not given */
	const char *prog;  /* NULL: not given */
	char *const *args; /* what stands behind the options (takes_words), or behind "--" */
	int n_args;
	struct measure_request request; /* what is measured; empty: nothing */
	bool csv;
	const char *keep; /* NULL: not given */
	bool json, verbose, quiet, help, version;
	bool sites, fix, wait, kept;
	int64_t for_ns, interval_ns; /* 0: not given */
	void *own;		     /* of the command, for its set_own */
};

struct command {
	const char *name;
	const struct help *help; /* its manual page, which also says what options it takes */
	bool many_pids;		 /* -pid may be repeated */
	bool takes_words;	 /* words behind the options, without --, are its args */
	bool takes_program;	 /* words behind -- are a program and its arguments */
	int (*run)(struct options *options);
	/*
	 * Take one of the flags that no other command has, with VALUE (NULL: none). Returns
	 * EXIT_DONE, or another code after having said why not.
	 */
	int (*set_own)(const struct command *command, struct options *options, const char *name,
		       const char *value);
};

/*
 * Parse ARGV (of which [0] is the command's name) for COMMAND. OPTIONS has its ctx set and is freed
 * by options_free. Returns EXIT_DONE, or EXIT_USAGE after having said why.
 */
int options_parse(const struct command *command, int argc, char **argv, struct options *options);
void options_free(struct options *options);

/*
 * Add the actions that the flag NAME with VALUE asks for. Returns EXIT_DONE, or another code after
 * having said why not.
 */
int options_add_actions(const struct command *command, struct options *options, const char *name,
			const char *value);

/* Add a process, if it is not there already. Returns EXIT_DONE, or EXIT_FAILED after having said
 * why. */
int options_add_pid(struct options *options, pid_t pid);

/*
 * Parse ARGV (of which [0] is the command's name) and run COMMAND. What its ctx logs is said.
 * Returns an exit code.
 */
int run_command(const struct command *command, int argc, char **argv);
/*
 * The option NAME in the manual page of HELP, behind its dashes ("count[=NAMES|RE]" and what
 * follows up to a newline); NULL: the page has no such option.
 */
const char *find_help_option(const struct help *help, const char *name);
/* CODE, or EXIT_FAILED after having said why: output that did not get out (a full disk). */
int flush_stdout(int code);

/*
 * Say that PROC has no probes, if it has none and somebody wants to know: on a terminal, or with
 * -verbose. To a script it is an answer like others, and no reason to write anything.
 */
void say_no_probes(const struct options *options, const struct ocp_process *proc);

/* Print "ocaml-probes: TEXT" to stderr. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * Print TEXT to stdout, control characters as '?': operands and paths are the target's, and none of
 * its bytes shall command a terminal.
 */
void print_text(const char *text);
/* Say what is wrong with the command line, and where help is; returns EXIT_USAGE. */
int say_usage(const struct command *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Say the ctx's error and hint; returns the exit code that stands for the library's code ERR. */
int say_error(const struct ocp_ctx *ctx, int err);
/* The same with "OPERAND: " before the sentence. */
int say_error_of(const char *operand, const struct ocp_ctx *ctx, int err);

#endif

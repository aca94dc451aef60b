/* SPDX-License-Identifier: MIT */
/*
 * Room cli: what the command lines of the programs share.
 * In: argv.
 * Out: options, messages, exit codes, the loop in which a command waits.
 * Callers: serve, top and tool.
 */
/* Code shared by the command-line programs: exit codes, options, messages. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/help.h"
#include "measure/args/request.h"
#include "ocaml_probes.h"

/* The exit codes, which are documented in tools/man/shared/exit_status.mdoc. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,      /* a failure that no other code describes */
	EXIT_USAGE = 2,	      /* usage error, unknown probe, contradictory actions */
	EXIT_PRIVILEGE = 3,   /* missing privilege */
	EXIT_KERNEL = 4,      /* the kernel lacks a feature for measuring */
	EXIT_GONE = 5,	      /* there is no such process, or the process exited too early */
	EXIT_BUSY = 6,	      /* another program traces the process, or the process does not stop */
	EXIT_OVER_BUDGET = 7, /* measuring exceeded --budget and was stopped */
	EXIT_NOT_MET = 8,     /* what --fail-above or --assert demands does not hold */
};

/* Which rows of counts and pairs a table shows, and in which order. */
enum row_order { ORDER_NAME, ORDER_HITS, ORDER_P99, ORDER_SUM };

struct assertion;

struct table_view {
	size_t top; /* rows to show; 0: all of them */
	enum row_order order;
	bool has_order;
	bool shows_zeros;
};

struct options {
	struct ocp_ctx *ctx;
	struct ocp_actions *actions;
	/* the last flag on the command line that requests actions; NULL: no flag does */
	const char *actions_flag;
	unsigned int update_flags; /* bits: OCP_FORCE, OCP_ATOMICALLY */
	unsigned int repair_flags; /* OCP_COMPLETE or 0 */
	pid_t *pids;		   /* each pid once */
	size_t n_pids;
	pid_t pid; /* pids[0]; 0: no process was named */
	/*
	 * For a command without takes_file (see struct command), the value of --exe or -prog; NULL:
	 * not given.
	 */
	const char *exe;
	const char *prog;  /* --exe or -prog, for a command with takes_file; NULL: not given */
	char *const *args; /* the words after the options (takes_words), or after "--" */
	int n_args;
	struct measure_request request; /* what to measure; an empty request: nothing */
	bool csv;
	struct table_view view;
	bool time_of_day;	   /* print the time of day of reports, hits and slow pairs */
	const char *output;	   /* the value of -o; NULL: not given */
	const char *keep;	   /* the value of --keep; NULL: not given */
	enum engine_choice engine; /* the value of --engine */
	bool json, verbose, quiet, help, version;
	bool sites, fix, wait, kept, follow;
	int64_t for_ns, interval_ns; /* 0: not given */
	void *own;		     /* data that the command's set_own fills in */
	struct assertion *asserts;   /* the values of --assert */
	size_t n_asserts;
	/* Abbreviated options with their full names; values of options point into these texts. */
	char **expanded;
	size_t n_expanded;
};

struct command {
	const char *name;
	const struct help *help; /* the manual page, which also defines the options */
	bool many_pids;		 /* -pid may be given several times */
	bool takes_words;	 /* words after the options become args; no -- is needed */
	bool owns_engine;	 /* set_own takes --engine, whose values differ */
	bool takes_program;	 /* words after -- are a program and its arguments */
	/*
	 * The command measures programs that may start and exit while it runs, see watch/watch.h.
	 */
	bool watches;
	/*
	 * --exe and -prog mean the same. With takes_file, the value becomes `prog`, a file to
	 * examine. Otherwise it becomes `exe`, which stands for the processes that run the file.
	 * With takes_running, exactly one process must run the file, and its id becomes `pid`.
	 */
	bool takes_file, takes_running;
	/*
	 * Return true if WORD, which is all digits, is not a process id, given these OPTIONS. NULL:
	 * a number is always a process id.
	 */
	bool (*keeps_number)(const struct options *options, const char *word);
	int (*run)(struct options *options);
	/*
	 * Take the flag NAME, which the command handles itself, with VALUE (NULL: none). Return
	 * EXIT_DONE, or another code after printing the error.
	 */
	int (*set_own)(const struct command *command, struct options *options, const char *name,
		       const char *value);
};

/* Return true if TEXT consists of digits, so that it can be a process id. */
bool is_number(const char *text);

/*
 * Add PID to the pids of OPTIONS, unless they contain PID already. Return EXIT_DONE, or EXIT_FAILED
 * after printing the error.
 */
int options_add_pid(struct options *options, pid_t pid);

/*
 * Parse ARGV (ARGV[0] is the command's name) and run COMMAND. Write log messages to stderr. Return
 * an exit code.
 */
int run_command(const struct command *command, int argc, char **argv);
/*
 * Find the option NAME in the manual page HELP. Return the option as the page writes it, without
 * dashes and up to a newline: "count[=NAMES|RE]". NULL: the page has no such option.
 */
const char *find_help_option(const struct help *help, const char *name);
/* Return true if the manual page of COMMAND has the option FLAG. */
bool command_takes(const struct command *command, const char *flag);
/*
 * If any of the descriptors 0, 1 and 2 is closed, occupy it with an O_PATH descriptor of /dev/null.
 * A file that is opened later, such as the memory of a process, can then not get one of these
 * numbers and receive our messages. Reading and writing still fail, as on a closed descriptor.
 */
void reserve_standard_descriptors(void);

/*
 * Flush stdout. Return CODE; but if CODE is EXIT_DONE and output was lost (as on a full disk),
 * print the error and return EXIT_FAILED.
 */
int flush_stdout(int code);

/*
 * If PROC has no probes, print a message that says so. Print it only if stderr is a terminal or
 * -verbose is given, so that scripts get no message, and never with -quiet.
 */
void say_no_probes(const struct options *options, const struct ocp_process *proc);

/*
 * Print the hint that functions can be counted without probes. Call this after the message that a
 * native program has no probes.
 */
void say_functions_hint(const struct options *options);

/* Print "ocaml-probes: " and the message to stderr, as one line. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * Print TEXT to stdout, with '?' for control characters: operands and paths come from other
 * programs and must not control the terminal.
 */
void print_text(const char *text);
/*
 * Print N CELLS of a table: pad each cell but the last to its width in WIDTHS and two blanks. The
 * caller ends the line. Without PRINT, only widen WIDTHS for the cells. Cells of more than 48 bytes
 * do not widen their column: they push later columns to the right.
 */
void print_columns(int *widths, const char *const *cells, size_t n, bool print);
/* Print a usage error, and a hint that names the help. Return EXIT_USAGE. */
int say_usage(const struct command *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Print the error and the hint recorded in the ctx. Return the exit code for ERR, an error code of
 * the library.
 */
int say_error(const struct ocp_ctx *ctx, int err);
/* Like say_error(), with "OPERAND: " before the error; OPERAND may be NULL. */
int say_error_of(const char *operand, const struct ocp_ctx *ctx, int err);

/*
 * Check the options for tables against each other. Return EXIT_DONE, or EXIT_USAGE after
 * printing the error.
 */
int table_options_check(const struct command *command, const struct options *options);

/* ---- options for measuring (measure_options.c) ---------------------------------------------- */

/* Most of these options fill in a struct measure_request. */

/*
 * Take the option NAME with VALUE (NULL: none). Return EXIT_DONE, or another code after printing
 * the error.
 */
int measure_options_add(const struct command *command, struct options *options, const char *name,
			const char *value);
/*
 * If functions, phases or lines are to be measured, check that the user names a program: any user
 * can start a program, so the code of unnamed programs is not read. Return EXIT_DONE, or EXIT_USAGE
 * after printing the error.
 */
int measure_options_check_program(const struct command *command, const struct options *options);
/* Return true if OPTIONS request a measurement. */
bool options_measure(const struct options *options);
/* Return true if REQUEST times the pair or the calls that ASSERTION is about. */
bool measure_request_times(const struct measure_request *request,
			   const struct assertion *assertion);
/*
 * Check the options for measuring against each other. Return EXIT_DONE, or EXIT_USAGE after
 * printing the error.
 */
int measure_options_check(const struct command *command, const struct options *options);
/*
 * Set a default budget if every program of the machine is measured and no --budget is given: the
 * user cannot foresee the cost in each of these programs. Named programs get no default budget.
 */
enum { ALL_PROGRAMS_PERCENT = 5 }; /* the default budget of each program, in percent of a core */
void measure_options_protect_all(struct options *options);
/*
 * Return the first feature in OPTIONS that only the engine `bpf` has, such as "--exe", as text for
 * a message. NULL: the engine `inside` can measure everything in OPTIONS.
 */
const char *measure_options_need_bpf(const struct options *options);
/*
 * Count all probes if OPTIONS do not say what to count. Return EXIT_DONE, or EXIT_FAILED after
 * printing the error.
 */
int measure_options_count_all(struct options *options);

#endif

/* SPDX-License-Identifier: MIT */
/* The operands of a command: process ids, a program, and words. Used by the parser of options. */
#ifndef CLI_OPERANDS_H
#define CLI_OPERANDS_H

#include <stdbool.h>

struct command;
struct options;

/* Return true if TEXT consists of digits, so that it can be a process id. */
bool is_number(const char *text);

/*
 * Take TEXT as a process id. FLAG is the option whose value it is (NULL: TEXT is an operand).
 * Return EXIT_DONE, or another code after printing the error. The functions below return the same.
 */
int options_take_pid(const struct command *command, struct options *options, const char *flag,
		     const char *text);

/*
 * Take WORDS, the N operands before any "--". A number is a process id. If COMMAND takes words, at
 * most one number is a process id, and only if no option names a process or a program; all other
 * operands become the args of OPTIONS.
 */
int options_take_words(const struct command *command, struct options *options, char **words, int n);

/*
 * If COMMAND has takes_running and --exe is given, find the one process that runs the file, and add
 * its pid to OPTIONS.
 */
int options_find_process(const struct command *command, struct options *options);

#endif

/* SPDX-License-Identifier: MIT */
/* What a command works on: process ids, a program, and words. Used by the parser of options. */
#ifndef CLI_OPERANDS_H
#define CLI_OPERANDS_H

#include <stdbool.h>

struct command;
struct options;

/* Does TEXT consist of digits? Such a word is a process id. */
bool is_number(const char *text);

/*
 * Take TEXT, the value of the option FLAG (NULL: a word), as a process id. Returns EXIT_DONE, or
 * another code after printing the error. So do the functions below.
 */
int options_take_pid(const struct command *command, struct options *options, const char *flag,
		     const char *text);

/*
 * Take the N words that stand where options may. A number is a process id. A command with words of
 * its own takes one such word as a process id if no option tells what to work on; the other words
 * become the args of OPTIONS.
 */
int options_take_words(const struct command *command, struct options *options, char **words, int n);

/* For a command that works on one process: find the process that runs the file of --exe. */
int options_find_process(const struct command *command, struct options *options);

#endif

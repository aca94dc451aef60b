/* SPDX-License-Identifier: MIT */
/* The operands of a command: process ids, a program, and words. For the parser of options. */
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
 * Take the N words that stand where options may. A number is a process id. If COMMAND takes words,
 * it takes at most one number as a process id, and only if no option names a process or a program;
 * the other words become the args of OPTIONS.
 */
int options_take_words(const struct command *command, struct options *options, char **words, int n);

/* If COMMAND takes one running process, find the one that runs the file of --exe. */
int options_find_process(const struct command *command, struct options *options);

#endif

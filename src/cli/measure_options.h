/* SPDX-License-Identifier: MIT */
/* The options for measuring. Most fill in a struct measure_request. */
#ifndef CLI_MEASURE_OPTIONS_H
#define CLI_MEASURE_OPTIONS_H

#include <stdbool.h>

struct command;
struct options;

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
/*
 * Check the options for measuring against each other. Return EXIT_DONE, or EXIT_USAGE after
 * printing the error.
 */
int measure_options_check(const struct command *command, const struct options *options);
/*
 * Set a default budget if every program of the machine is measured and no --budget is given: the
 * user cannot know the cost in each of these programs. Named programs get no default budget.
 */
enum { ALL_PROGRAMS_PERCENT = 5 }; /* of a core, for each program */
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

/* SPDX-License-Identifier: MIT */
/* The options for measuring. Most fill in a struct measure_request. */
#ifndef CLI_MEASURE_OPTIONS_H
#define CLI_MEASURE_OPTIONS_H

#include <stdbool.h>

struct command;
struct options;

/*
 * Take the option NAME with VALUE (NULL: none). Returns EXIT_DONE, or another code after printing
 * the error.
 */
int measure_options_add(const struct command *command, struct options *options, const char *name,
			const char *value);
/*
 * Functions are measured only in programs that the user names: any user can start a program, and its
 * code is not read unasked. Returns as above.
 */
int measure_options_check_program(const struct command *command, const struct options *options);
/* Do OPTIONS ask for measuring? */
bool options_measure(const struct options *options);
/* Check the options for measuring against each other. Returns as above. */
int measure_options_check(const struct command *command, const struct options *options);
/*
 * Set a default budget if every program of the machine is to be measured without a budget, since
 * the user does not know the cost for each of them. Named programs have no default budget.
 */
enum { ALL_PROGRAMS_PERCENT = 5 }; /* of a core, for each program */
void measure_options_protect_all(struct options *options);
/*
 * What OPTIONS ask for that only the engine `bpf` measures, for a message: "--filter", for example. NULL:
 * the engine `inside` measures all of it.
 */
const char *measure_options_need_bpf(const struct options *options);
/* Count all probes if OPTIONS count none. Returns EXIT_DONE or EXIT_FAILED. */
int measure_options_count_all(struct options *options);

#endif

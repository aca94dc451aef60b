/* SPDX-License-Identifier: MIT */
/* The options that ask for measuring: most fill in a struct measure_request. */
#ifndef CLI_MEASURE_OPTIONS_H
#define CLI_MEASURE_OPTIONS_H

#include <stdbool.h>

struct command;
struct options;

/*
 * Take the flag NAME with VALUE (NULL: none). Returns EXIT_DONE, or another code after having said
 * why not.
 */
int measure_options_add(const struct command *command, struct options *options, const char *name,
			const char *value);
/* Do OPTIONS ask for something to be measured? */
bool options_measure(const struct options *options);
/* Do the options that go with measuring, and with each other? Returns as above. */
int measure_options_check(const struct command *command, const struct options *options);
/*
 * Set a budget if every program of the machine is to be measured and none was given: nobody has
 * thought of what that does to each of them. Programs that are named have none by default.
 */
enum { ALL_PROGRAMS_PERCENT = 5 }; /* of a core, for each program */
void measure_options_protect_all(struct options *options);
/* Count all probes if OPTIONS count none. Returns EXIT_DONE or EXIT_FAILED. */
int measure_options_count_all(struct options *options);

#endif

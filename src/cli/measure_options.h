/* SPDX-License-Identifier: MIT */
/* What the command line asks to be measured. */
#ifndef CLI_MEASURE_OPTIONS_H
#define CLI_MEASURE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"

struct command;
struct options;

struct measure_options {
	const char *flag; /* the last that asked for something to be measured; NULL: none did */
	/* Values of --count and --time, in their order; NULL: --count without a value. */
	const char **counts, **times;
	size_t n_counts, n_times;
	enum ocp_split split;
	unsigned int depth;  /* 0: not given */
	const char **prints; /* values of --print, in their order */
	size_t n_prints;
	uint64_t limit;
	bool has_limit;
	const char *key, *filter, *hist; /* NULL: not given */
	bool children, csv;
	const char *keep; /* NULL: not given */
	double budget;	  /* a share of one core; 0: not given */
};

/*
 * Take the flag NAME with VALUE (NULL: none). Returns EXIT_DONE, or another code after having said
 * why not.
 */
int measure_options_add(const struct command *command, struct measure_options *options,
			const char *name, const char *value);
/* Do the options that go with measuring, and with each other? Returns as above. */
int measure_options_check(const struct command *command, const struct options *options);
/*
 * Set a budget if every program of the machine is to be measured and none was given: nobody has
 * thought of what that does to each of them. Programs that are named have none by default.
 */
enum { ALL_PROGRAMS_PERCENT = 5 }; /* of a core, for each program */
void measure_options_protect_all(struct options *options);
void measure_options_free(struct measure_options *options);

/*
 * A copy that keeps its own strings, freed by measure_options_free_copy; NULL: memory is short. Do
 * A and B ask for the same?
 */
struct measure_options *measure_options_copy(const struct measure_options *options);
void measure_options_free_copy(struct measure_options *copy);
bool measure_options_equal(const struct measure_options *a, const struct measure_options *b);

/* Tell METER what was asked for. Returns a code of the library. */
int measure_options_apply(const struct measure_options *options, struct ocp_meter *meter);

#endif

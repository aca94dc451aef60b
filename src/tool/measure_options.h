/* SPDX-License-Identifier: MIT */
/* What the command line asks to be measured. */
#ifndef TOOL_MEASURE_OPTIONS_H
#define TOOL_MEASURE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

struct command;

struct measure_options {
	const char *flag; /* the last that asked for something to be measured; NULL: none did */
	/* Values of --count and --time, in their order; NULL: --count without a value. */
	const char **counts, **times;
	size_t n_counts, n_times;
	enum ocp_split split;
	unsigned int depth; /* 0: not given */
	bool children, csv;
	double budget; /* a share of one core; 0: not given */
};

/*
 * Take the flag NAME with VALUE (NULL: none). Returns EXIT_DONE, or another code after having said
 * why not.
 */
int measure_options_add(const struct command *command, struct measure_options *options,
			const char *name, const char *value);
void measure_options_free(struct measure_options *options);

/* Tell METER what was asked for. Returns a code of the library. */
int measure_options_apply(const struct measure_options *options, struct ocp_meter *meter);

#endif

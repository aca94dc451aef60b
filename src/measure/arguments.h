/* SPDX-License-Identifier: MIT */
/* What a meter does with the arguments of probes: filter, key, histogram, printing. */
#ifndef MEASURE_ARGUMENTS_H
#define MEASURE_ARGUMENTS_H

#include <linux/types.h>
#include <stdbool.h>
#include "args.h"
#include "measure/args_table.h"
#include "measure/engine.h"
#include "measure/selection.h"
#include "measure/site_table.h"

struct ocp_meter;

struct arguments {
	/* what was asked for */
	bool has_filter;
	struct filter filter;
	__u32 filter_args; /* bit N: argN is in it */
	int key_arg;	   /* -1: none */
	int hist_arg;	   /* -1: none */
	struct selection printed;
	uint64_t print_limit;
	size_t print_bytes; /* of the buffer; 0: as the limit needs */

	/* what that comes to */
	struct args_table table;
	size_t n_histograms; /* numbers given away; spec.n_histograms are the room */
};

void arguments_init(struct arguments *arguments);
void arguments_free(struct arguments *arguments);

/* Is anything asked for that reads arguments? */
bool arguments_are_read(const struct arguments *arguments);

/*
 * Number the arguments and histograms of the N sites from FIRST on. -EINVAL if a site does not have
 * what is asked for, with IS_STRICT; otherwise that is a warning, and the site has no arguments.
 */
int arguments_resolve(struct ocp_meter *meter, size_t first, size_t n, bool is_strict);

/* What the engine is to know: of all, and of a site. */
void arguments_fill_spec(const struct ocp_meter *meter, struct engine_spec *spec);
void arguments_fill_site(const struct ocp_meter *meter, const struct measured_site *measured,
			 struct engine_site *site);

#endif

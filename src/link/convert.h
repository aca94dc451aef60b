/* SPDX-License-Identifier: MIT */
/* Convert the dormant probes of an executable to probe sites. */
#ifndef LINK_CONVERT_H
#define LINK_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include "link/image.h"

struct convert_options {
	bool strict;   /* a probe that must stay dormant is an error */
	bool show_all; /* log every conversion, not only failures */
	bool check;    /* the result will not be written: log "can be converted" */
	/*
	 * Called with each warning, TEXT, and the place of its probe in the source; FILE is NULL if
	 * the place is unknown. The callback may be NULL.
	 */
	void (*warn)(void *data, const char *file, int line, const char *text);
	void *data;
};

struct convert_result {
	bool was_converted; /* before this call: nothing was done */
	size_t n_markers;
	size_t n_sites;	   /* converted now */
	size_t n_probes;   /* different names of these sites */
	size_t n_queries;  /* converted [%probe_is_enabled] with these names */
	size_t n_external; /* sites of other files' probes; they stay dormant */
	size_t n_failures; /* probes that stay dormant; each has a warning */
};

/* Convert IMAGE in memory. It is not an error if IMAGE has no probes. */
int convert(struct image *image, const struct convert_options *options,
	    struct convert_result *result);

#endif

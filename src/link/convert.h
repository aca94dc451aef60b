/* SPDX-License-Identifier: MIT */
/* Turning an executable's dormant probes into probe sites. */
#ifndef LINK_CONVERT_H
#define LINK_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include "link/image.h"

struct convert_options {
	bool strict;   /* a probe that must stay dormant is an error */
	bool show_all; /* log every conversion, not only failures */
	bool check;    /* the result will not be written; changes what is logged */
	/*
	 * Called with each warning, TEXT, and the place of its probe in the source; FILE is NULL if
	 * the place is unknown. May be NULL.
	 */
	void (*warn)(void *data, const char *file, int line, const char *text);
	void *data;
};

struct convert_result {
	bool was_converted; /* earlier: there was nothing to do */
	size_t n_markers;
	size_t n_sites;	   /* converted now */
	size_t n_probes;   /* their names */
	size_t n_queries;  /* [%probe_is_enabled] of these names */
	size_t n_external; /* sites of other files' probes, which stay dormant */
	size_t n_failures; /* probes that stay dormant; each has a warning */
};

/* Convert IMAGE in memory. An image without probes is no error. */
int convert(struct image *image, const struct convert_options *options,
	    struct convert_result *result);

#endif

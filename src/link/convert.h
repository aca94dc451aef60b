/* SPDX-License-Identifier: MIT */
/* Turning an executable's dormant probes into probe sites. */
#ifndef LINK_CONVERT_H
#define LINK_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include "link/image.h"

struct convert_options {
	bool strict;   /* a probe that has to stay dormant is an error */
	bool show_all; /* log every conversion, not only what failed */
	bool check;    /* the result will be thrown away; for what is logged */
	/*
	 * Called with each warning, TEXT, and where in the source the probe stands that it is
	 * about: FILE is NULL if that is not known. May be NULL.
	 */
	void (*warn)(void *data, const char *file, int line, const char *text);
	void *data;
};

struct convert_result {
	bool was_converted; /* before; nothing was done */
	size_t n_markers;
	size_t n_sites;	   /* converted now */
	size_t n_probes;   /* names among them */
	size_t n_queries;  /* [%probe_is_enabled] that read a semaphore of theirs */
	size_t n_external; /* sites of other files' probes, which stay dormant; a warning each */
	size_t n_failures; /* what had to stay dormant; there was a warning of each */
};

/* Convert IMAGE in memory. An image without probes is no error. */
int convert(struct image *image, const struct convert_options *options,
	    struct convert_result *result);

#endif

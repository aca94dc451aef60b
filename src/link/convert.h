/* SPDX-License-Identifier: MIT */
/*
 * Room link: the post-linker ocaml-probes-link.
 * In: a program that was built with the ppx.
 * Out: the same program with sites, semaphores and notes.
 * Callers: no room: it is a program.
 */
/* Convert the dormant probes of an executable to probe sites. */
#ifndef LINK_CONVERT_H
#define LINK_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include "link/image.h"

struct convert_options {
	bool strict;   /* treat each problem that n_failures counts as an error */
	bool show_all; /* log every conversion, not only failures */
	bool check;    /* the result will not be written: log "can be converted" */
	/*
	 * Called with the TEXT of each warning. FILE and LINE are the place in the source of the
	 * probe that the warning is about; FILE is NULL if the place is unknown. The callback may
	 * be NULL.
	 */
	void (*warn)(void *data, const char *file, int line, const char *text);
	void *data;
};

struct convert_result {
	bool was_converted; /* the file was converted before, so this call did not change it */
	size_t n_markers;
	size_t n_sites;	   /* converted by this call */
	size_t n_probes;   /* distinct probe names of the converted sites */
	size_t n_queries;  /* queries ([%probe_is_enabled]) that now read a semaphore */
	size_t n_external; /* sites of probes that other files define; these sites stay dormant */
	/*
	 * Number of problems, all of which are reported as warnings: sites and queries that stay
	 * dormant (including the sites in n_external); arguments for which a note says the constant
	 * 0; and probe names for which some, but not all, places in the source have
	 * ~enabled_at_init:true (then all sites of the name start enabled).
	 */
	size_t n_failures;
};

/* Convert IMAGE in memory. An IMAGE without probes is not an error. */
int convert(struct linked_file *image, const struct convert_options *options,
	    struct convert_result *result);

#endif

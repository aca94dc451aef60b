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
	bool strict;   /* each problem that n_failures counts is an error */
	bool show_all; /* log every conversion, not only failures */
	bool check;    /* the result will not be written: log "can be converted" */
	/*
	 * Called with each warning: its TEXT, and the place in the source of the probe that the
	 * warning is about. FILE is NULL if the place is unknown. The callback may be NULL.
	 */
	void (*warn)(void *data, const char *file, int line, const char *text);
	void *data;
};

struct convert_result {
	bool was_converted; /* the file was already converted: this call did nothing */
	size_t n_markers;
	size_t n_sites;	   /* converted by this call */
	size_t n_probes;   /* distinct probe names of the converted sites */
	size_t n_queries;  /* queries ([%probe_is_enabled]) that now read a semaphore */
	size_t n_external; /* sites of other files' probes; they stay dormant */
	/*
	 * Number of problems: sites and queries that stay dormant (including the sites in
	 * n_external), arguments noted as 0, and probe names with ~enabled_at_init:true at some but
	 * not all of their places in the source (then all start enabled). All are reported as
	 * warnings.
	 */
	size_t n_failures;
};

/* Convert IMAGE in memory. It is not an error if IMAGE has no probes. */
int convert(struct linked_file *image, const struct convert_options *options,
	    struct convert_result *result);

#endif

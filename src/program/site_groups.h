/* SPDX-License-Identifier: MIT */
/* Group the sites of a program by probe: see struct ocp_program. */
#ifndef PROGRAM_SITE_GROUPS_H
#define PROGRAM_SITE_GROUPS_H

#include "program/program.h"

/* Compare the names of two struct probe, for qsort(3) and bsearch(3). */
int site_groups_compare_probes(const void *a, const void *b);

/*
 * Sort the probes by name, and reserve slots for their sites. On entry, the n_sites of each probe
 * is the number of sites that it will have. On return, first_site is the index of the probe's first
 * slot, and n_sites is 0. Set *RANK to a table from old to new probe numbers, which the caller
 * frees.
 */
int site_groups_begin(struct ocp_program *prog, uint32_t **rank);

/* Return the slot in SITES for the next site of probe number PROBE, and count this site. */
struct site *site_groups_next(struct ocp_program *prog, struct site *sites, uint32_t probe);

/* Sort the sites of each probe by address; those without code come last. */
void site_groups_end(struct ocp_program *prog);

/*
 * Group the sites of PROG, which are in any order and have `probe` set: do the work of the three
 * functions above.
 */
int site_groups_make(struct ocp_program *prog);

#endif

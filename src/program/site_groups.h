/* SPDX-License-Identifier: MIT */
/* The sites of a program, by probe: see struct ocp_program. */
#ifndef PROGRAM_SITE_GROUPS_H
#define PROGRAM_SITE_GROUPS_H

#include "program/program.h"

/* By name, for qsort(3) and bsearch(3) of struct probe. */
int site_groups_compare_probes(const void *a, const void *b);

/*
 * Sort the probes by name. Their n_sites, which say how many sites they will have, become their
 * places: first_site, and n_sites is 0. Free *RANK, which tells the new number of a probe by the
 * old one.
 */
int site_groups_begin(struct ocp_program *prog, uint32_t **rank);

/* The place of the next site of the probe with this number, in SITES. */
struct site *site_groups_next(struct ocp_program *prog, struct site *sites, uint32_t probe);

/* Sort the sites of each probe by address: those without code are last. */
void site_groups_end(struct ocp_program *prog);

/* All three, for sites that are in any order and know the numbers of their probes. */
int site_groups_make(struct ocp_program *prog);

#endif

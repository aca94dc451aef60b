/* SPDX-License-Identifier: MIT */
/*
 * Counts the sites in the code of a plugin that belong to probes of its host program: see
 * dormant/external.c.
 */
#ifndef PROGRAM_HOST_SITES_H
#define PROGRAM_HOST_SITES_H

#include <stddef.h>
#include "program/program.h"

/* Set *N to the number of sites in PROG's code that belong to probes of its host program. */
int program_count_host_sites(const struct ocp_program *prog, size_t *n);

#endif

/* SPDX-License-Identifier: MIT */
/* The probe sites of a file whose probes are in another file: see dormant/external.c. */
#ifndef PROGRAM_HOST_SITES_H
#define PROGRAM_HOST_SITES_H

#include <stddef.h>
#include "program/program.h"

/* Set *N to the number of sites in PROG's code that belong to probes of its host program. */
int program_count_host_sites(const struct ocp_program *prog, size_t *n);

#endif

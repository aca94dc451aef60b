/* SPDX-License-Identifier: MIT */
/* Find the source lines of sites, for the other modules of the library. */
#ifndef PROCESS_SITES_H
#define PROCESS_SITES_H

#include "process/process.h"

/* Find the source lines of the probes of SITES, read from PROC: see OCP_SITES_SOURCE. */
int sites_place(const struct ocp_process *proc, struct ocp_sites *sites);

#endif

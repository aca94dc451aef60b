/* SPDX-License-Identifier: MIT */
/* What the library does with the sites that were read, beside handing them out. */
#ifndef PROCESS_SITES_H
#define PROCESS_SITES_H

#include "process/process.h"

/* Find out where the probes of SITES, read from PROC, stand in the source: see OCP_SITES_SOURCE. */
int sites_place(const struct ocp_process *proc, struct ocp_sites *sites);

#endif

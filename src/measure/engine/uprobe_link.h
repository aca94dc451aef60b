/* SPDX-License-Identifier: MIT */
/* Makes a uprobe_multi link: all sites of one file, for one process or for all. */
#ifndef MEASURE_UPROBE_LINK_H
#define MEASURE_UPROBE_LINK_H

#include <stdbool.h>
#include "measure/engine/engine.h"

struct uprobe_link_spec {
	int prog_fd;	  /* runs at each hit */
	int idle_prog_fd; /* runs at each hit while conflicts are searched for */
	const struct engine_file *file;
	const bool *wanted; /* the sites to attach to */
	bool *no_semaphore; /* by site: do not use its semaphore; read and updated */
	/* For the cookies: the number of the first site in `file`, and the serial of the link. */
	uint32_t first_site, serial;
	pid_t pid;	/* the process to measure; 0: all */
	bool is_return; /* the uprobes are return probes */
};

/*
 * Put uprobes on the wanted sites, raise the semaphores of these sites, and set *FD to the link. If
 * another tracer uses a site without its semaphore (see uprobe_link.c), the link does not use this
 * semaphore either, and a warning is logged. Closing *FD removes the uprobes and waits until no hit
 * is being handled.
 */
int uprobe_link_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fd);

#endif

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
	bool *no_semaphore; /* by site: do without the semaphore; in and out */
	uint32_t first_site,
		serial; /* for the cookies: number of the first site; the link's serial */
	pid_t pid;	/* the process to measure; 0: all */
	bool is_return; /* return probes */
};

/*
 * Put uprobes on the sites and raise their semaphores. A site that another tracer uses without a
 * semaphore (see uprobe_link.c) does without it, and this is logged. The link is *FD. Closing it
 * removes the uprobes and waits until no hit is being handled.
 */
int uprobe_link_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fd);

#endif

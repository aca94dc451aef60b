/* SPDX-License-Identifier: MIT */
/* One uprobe_multi link: all sites of one file, hit by one process or by any. */
#ifndef MEASURE_UPROBE_LINK_H
#define MEASURE_UPROBE_LINK_H

#include <stdbool.h>
#include "measure/engine/engine.h"

struct uprobe_link_spec {
	int prog_fd;	  /* what a hit runs */
	int idle_prog_fd; /* what a hit runs while it is found out who is in the way */
	const struct engine_file *target;
	const bool *wanted; /* which of its sites */
	bool *no_semaphore; /* of each of its sites: goes without; is known, and found out */
	uint32_t first_site, serial; /* for the cookies: number of the target's first site; link */
	pid_t pid;		     /* whose hits; 0: every process's */
};

/*
 * Put uprobes onto the sites, raising their semaphores. Where another tracer's uprobe forbids that
 * (see uprobe_link.c) the site goes without, and the log says so. The link is *FD; closing it takes
 * everything away and returns when no hit is being handled any more.
 */
int uprobe_link_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fd);

#endif

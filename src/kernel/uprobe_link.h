/* SPDX-License-Identifier: MIT */
/* Puts uprobes on places in one file, for one process or for all. */
#ifndef KERNEL_UPROBE_LINK_H
#define KERNEL_UPROBE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

struct uprobe {
	uint64_t off;	      /* file offset of the instruction */
	uint64_t ref_ctr_off; /* file offset of the semaphore to raise; 0: the site has none */
	uint64_t cookie;
	bool no_semaphore; /* do not use the semaphore; also set if it could not be used */
};

struct uprobe_link_spec {
	int prog_fd;	  /* the program that runs at each hit */
	int idle_prog_fd; /* does nothing; runs at hits while conflicts are searched for */
	const char *path; /* the file; for example /proc/self/fd/N */
	const char *name; /* the name of the file for messages */
	struct uprobe *uprobes;
	size_t n;
	pid_t pid;	/* the process to measure; 0: all processes */
	bool is_return; /* make return probes: uprobes at the return of a function */
};

/*
 * Make all uprobes of SPEC, raise their semaphores, and set *FD to their uprobe_multi link. At a
 * place where another tracer has a uprobe without semaphore (see uprobe_link.c), the link does not
 * use the semaphore either, and a warning is logged. Closing *FD removes the uprobes and waits
 * until no hit is being handled.
 */
int uprobe_link_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fd);

/*
 * Do the same as uprobe_link_create(), but by one perf event per uprobe, for kernels without
 * uprobe_multi links. Before that, log how long the detach will take. spec->idle_prog_fd is not
 * used. FDS has room for one descriptor per uprobe; closing the descriptors removes the uprobes. On
 * failure no descriptor is left open. Defined in perf_links.c.
 */
int perf_links_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fds);

#endif

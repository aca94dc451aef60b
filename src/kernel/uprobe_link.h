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
	uint64_t ref_ctr_off; /* file offset of the semaphore to raise; 0: none */
	uint64_t cookie;
	bool no_semaphore; /* do not use its semaphore; also set if it could not be used */
};

struct uprobe_link_spec {
	int prog_fd;	  /* runs at each hit */
	int idle_prog_fd; /* runs at each hit while conflicts are searched for */
	const char *path; /* the file; for example /proc/self/fd/N */
	const char *name; /* the name of the file for messages */
	struct uprobe *uprobes;
	size_t n;
	pid_t pid;	/* the process to measure; 0: all */
	bool is_return; /* the uprobes are return probes */
};

/*
 * Make all uprobes of SPEC, raise their semaphores, and set *FD to their uprobe_multi link. If
 * another tracer uses a place without its semaphore (see uprobe_link.c), the link does not use this
 * semaphore either, and a warning is logged. Closing *FD removes the uprobes and waits until no hit
 * is being handled.
 */
int uprobe_link_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fd);

/*
 * perf_links.c: like uprobe_link_create(), but make one perf event per uprobe, for kernels without
 * uprobe_multi links. spec->idle_prog_fd is not used. Log the expected duration of the detach
 * first. FDS has room for one descriptor per uprobe; closing the descriptors removes the uprobes.
 * On failure no descriptor is left open.
 */
int perf_links_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fds);

#endif

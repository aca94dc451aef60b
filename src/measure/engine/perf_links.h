/* SPDX-License-Identifier: MIT */
/* Attaches to the sites of a file by one perf event each, on kernels without uprobe_multi links. */
#ifndef MEASURE_PERF_LINKS_H
#define MEASURE_PERF_LINKS_H

#include "measure/engine/uprobe_link.h"

/*
 * Put a uprobe on each wanted site of SPEC (idle_prog_fd is not used). Log the expected duration of
 * the detach first. FDS has room for one descriptor per wanted site; closing the descriptors
 * removes the uprobes. On failure no descriptor is left open.
 */
int perf_links_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fds);

#endif

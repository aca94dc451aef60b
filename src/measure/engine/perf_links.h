/* SPDX-License-Identifier: MIT */
/* The sites of one file by perf events, one each, for kernels without uprobe_multi links. */
#ifndef MEASURE_PERF_LINKS_H
#define MEASURE_PERF_LINKS_H

#include "measure/engine/uprobe_link.h"

/*
 * Put a uprobe onto every site of SPEC (idle_prog_fd is not used). What detaching will cost is said
 * in the log first. FDS has room for a descriptor a site; closing them takes the uprobes away. On
 * failure none is left open.
 */
int perf_links_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fds);

#endif

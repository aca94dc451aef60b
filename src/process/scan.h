/* SPDX-License-Identifier: MIT */
/* Scanning as ocp_scan() does, for callers that scan repeatedly. */
#ifndef PROCESS_SCAN_H
#define PROCESS_SCAN_H

#include <stdbool.h>
#include <sys/types.h>
#include "ocaml_probes.h"

struct scan_finder {
	/* Return true to open PID, which has a file with probes. NULL: open all such processes. */
	bool (*wants)(void *data, pid_t pid);
	ocp_scan_fn found;
	void *data;
};

/* Do the same as ocp_scan(), with FINDER. */
int scan_processes(struct ocp_ctx *ctx, const struct scan_finder *finder,
		   struct ocp_scan_summary *summary);

#endif

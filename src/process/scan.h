/* SPDX-License-Identifier: MIT */
/* The search of ocp_scan, for those who repeat it. */
#ifndef PROCESS_SCAN_H
#define PROCESS_SCAN_H

#include <stdbool.h>
#include <sys/types.h>
#include "ocaml_probes.h"

struct scan_finder {
	/* Is PID, of which a file has probes, to be opened? NULL: each is. */
	bool (*wants)(void *data, pid_t pid);
	ocp_scan_fn found;
	void *data;
};

/* As ocp_scan. */
int scan_processes(struct ocp_ctx *ctx, const struct scan_finder *finder,
		   struct ocp_scan_summary *summary);

#endif

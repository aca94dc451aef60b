/* SPDX-License-Identifier: MIT */
/* Scan the processes as ocp_scan() does, but let the caller choose which processes to open. */
#ifndef PROCESS_SCAN_H
#define PROCESS_SCAN_H

#include <stdbool.h>
#include <sys/types.h>
#include "ocaml_probes.h"

struct scan_finder {
	/*
	 * Return true if PID, which has a file with probes, is to be opened. If `wants` is NULL,
	 * all processes that have such a file are opened.
	 */
	bool (*wants)(void *data, pid_t pid);
	ocp_scan_fn found;
	void *data;
};

/*
 * Do the same as ocp_scan(), but open only the processes that FINDER wants, and pass them to
 * FINDER->found().
 */
int scan_processes(struct ocp_ctx *ctx, const struct scan_finder *finder,
		   struct ocp_scan_summary *summary);

#endif

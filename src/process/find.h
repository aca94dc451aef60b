/* SPDX-License-Identifier: MIT */
/* Which processes run a file: the search of ocp_find_processes, for those who repeat it. */
#ifndef PROCESS_FIND_H
#define PROCESS_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"

struct found_processes {
	pid_t *pids; /* ascending */
	size_t n;
	pid_t *hidden; /* whose name is the file's, and that may not be inspected; ascending */
	size_t n_hidden;
	bool sees_all; /* no process is invisible to us (hidepid=invisible) */
};

/*
 * Look for the processes that run FILE, of which BASE is the name. Nothing is logged, and none is
 * no error. To be freed in any case.
 */
struct stat;
int find_processes(struct ocp_ctx *ctx, const struct stat *file, const char *base,
		   struct found_processes *found);
void found_processes_free(struct found_processes *found);

/* Tell of a hidden one. */
void find_log_hidden(struct ocp_ctx *ctx, pid_t pid, const char *base);

#endif

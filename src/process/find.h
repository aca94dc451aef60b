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

/* A process that ran something else when it was looked at. */
struct other_process {
	pid_t pid;
	unsigned int looks; /* how often that was so */
};

/*
 * What a search leaves for the next one, so that it does not look at all processes again: of those
 * that have been running something else for a while, some take their turn each time. One of them
 * that then runs FILE is found later. All 0 at first.
 */
struct find_memory {
	struct other_process *others; /* ascending */
	size_t n;
	unsigned int round;
};

void find_memory_free(struct find_memory *memory);

/* In a round of something that concerns N, and A_ROUND of them each time: is it PID's turn? */
bool find_is_its_turn(pid_t pid, size_t n, size_t a_round, unsigned int round);

/*
 * Look for the processes that run FILE, of which BASE is the name. MEMORY may be NULL.
 * Nothing is logged, and none is no error. To be freed in any case.
 */
struct stat;
int find_processes(struct ocp_ctx *ctx, const struct stat *file, const char *base,
		   struct find_memory *memory, struct found_processes *found);
void found_processes_free(struct found_processes *found);

/* Tell of a hidden one. */
void find_log_hidden(struct ocp_ctx *ctx, pid_t pid, const char *base);

#endif

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

enum { FIND_NAME_BYTES = 15 }; /* of a process, at most */

/* What a process ran when it was last looked at. */
struct known_process {
	pid_t pid;
	unsigned int looks; /* how often it was that */
	unsigned int round; /* of the last look */
	dev_t dev;	    /* of its executable; 0: it has none, or hides it */
	ino_t ino;
	char hidden[FIND_NAME_BYTES + 1]; /* its name if it may not be inspected, else "" */
};

/*
 * The processes that there are, for searches for any number of files. They are listed by the first
 * search after find_memory_expire. Of those that have been running what they run for a while, only
 * some, which take turns, are looked at each time; and those that a search would say it found: one
 * of the others that then executes FILE is found later. All 0 at first.
 */
struct find_memory {
	struct known_process *processes; /* ascending */
	size_t n;
	unsigned int round;
	bool sees_all;
	bool is_listed; /* since it expired */
};

void find_memory_free(struct find_memory *memory);
void find_memory_expire(struct find_memory *memory);

/* In a round of something that concerns N, and A_ROUND of them each time: is it PID's turn? */
bool find_is_its_turn(pid_t pid, size_t n, size_t a_round, unsigned int round);

/*
 * Look for the processes that run FILE, of which BASE is the name. Nothing is logged, and none is
 * no error. To be freed in any case.
 */
struct stat;
int find_processes(struct ocp_ctx *ctx, const struct stat *file, const char *base,
		   struct find_memory *memory, struct found_processes *found);
void found_processes_free(struct found_processes *found);

/* Those that have been told of. All 0 at first; PIDS is to be freed. */
struct warned_pids {
	pid_t *pids; /* ascending */
	size_t n;
};

/* Tell of those FOUND to be hidden that have not been told of, and take all of them for it. */
void find_warn_of_hidden(struct ocp_ctx *ctx, struct warned_pids *told,
			 struct found_processes *found, const char *base);

#endif

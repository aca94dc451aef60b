/* SPDX-License-Identifier: MIT */
/*
 * Find the processes that run a file, as ocp_find_processes() does, but for callers that search
 * repeatedly.
 */
#ifndef LOOK_FIND_H
#define LOOK_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"

struct found_processes {
	pid_t *pids; /* ascending */
	size_t n;
	pid_t *hidden; /* processes with the file's name that may not be inspected; ascending */
	size_t n_hidden;
	bool sees_all; /* /proc shows all processes (no hidepid=invisible) */
};

enum { FIND_NAME_BYTES = 15 }; /* the longest name of a process */

/* What a process ran when it was last inspected. */
struct known_process {
	pid_t pid;
	unsigned int looks; /* inspections in a row with this result, at most YOUNG_LOOKS */
	unsigned int round; /* the round of the last inspection */
	dev_t dev;	    /* of its executable; 0: the process has no executable, or hides it */
	ino_t ino;
	char hidden[FIND_NAME_BYTES + 1]; /* its name if it may not be inspected, else "" */
};

/*
 * The processes of the machine, for searches for any number of files. The first search after
 * find_memory_expire() lists the processes again: a new round. A round inspects all new processes
 * and some of the others, which take turns. Besides, each search inspects the processes that ran
 * its file, or may have run it, when they were last inspected. So if a process that is no longer
 * new executes the file, some rounds may pass before a search finds it. Initialize with { 0 }.
 */
struct find_memory {
	struct known_process *processes; /* ascending */
	size_t n;
	unsigned int round;
	bool sees_all;
	bool is_listed; /* listed since find_memory_expire() */
};

void find_memory_free(struct find_memory *memory);
void find_memory_expire(struct find_memory *memory);
/* List the processes now, as the first search after find_memory_expire() does. */
int find_memory_list(struct ocp_ctx *ctx, struct find_memory *memory);

/*
 * Return true if it is PID's turn in ROUND, when N processes take turns, about A_ROUND in each
 * round.
 */
bool find_is_its_turn(pid_t pid, size_t n, size_t a_round, unsigned int round);

/*
 * Find the processes that run FILE, whose name is BASE. Logs nothing. Finding no process is not an
 * error. The caller frees FOUND, also after an error.
 */
struct stat;
int find_processes(struct ocp_ctx *ctx, const struct stat *file, const char *base,
		   struct find_memory *memory, struct found_processes *found);
void found_processes_free(struct found_processes *found);

/* The hidden processes that a warning has named. Initialize with { 0 }; the caller frees `pids`. */
struct warned_pids {
	pid_t *pids; /* ascending */
	size_t n;
};

/*
 * Log a warning about each hidden process in FOUND that is not in TOLD. Then replace the pids in
 * TOLD by the hidden pids of FOUND, and remove these from FOUND.
 */
void find_warn_of_hidden(struct ocp_ctx *ctx, struct warned_pids *told,
			 struct found_processes *found, const char *base);

#endif

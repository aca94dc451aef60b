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
	pid_t *pids; /* the pids of processes that run the file, ascending */
	size_t n;
	/* the pids of processes that have the file's name, but hide their executables; ascending */
	pid_t *hidden;
	size_t n_hidden;
	bool sees_all; /* /proc shows all processes (no hidepid=invisible) */
};

enum { FIND_NAME_BYTES = 15 }; /* the longest name of a process */

/* What a process was running when it was last inspected. */
struct known_process {
	pid_t pid;
	unsigned int looks; /* how many inspections in a row had this result, at most YOUNG_LOOKS */
	unsigned int round; /* the number of the round in which the process was inspected last */
	dev_t dev; /* dev and ino of the executable; 0: the process has none, or hides it */
	ino_t ino;
	/* the name of the process if the process hides its executable from this user, else "" */
	char hidden[FIND_NAME_BYTES + 1];
};

/*
 * The processes of the machine, for searches for any number of files. The first search after
 * find_memory_expire() lists the processes again: a new round. A round inspects all new processes
 * and some of the others; these take turns from round to round. In addition, each search inspects
 * the processes that, when they were last inspected, ran or may have run the file of the search. So
 * if a process that is no longer new executes the file, some rounds may pass before a search finds
 * the process. Initialize with { 0 }.
 */
struct find_memory {
	struct known_process *processes; /* sorted by pid, ascending */
	size_t n;
	unsigned int round;
	bool sees_all;
	bool is_listed; /* the processes were listed since find_memory_expire() */
};

void find_memory_free(struct find_memory *memory);
void find_memory_expire(struct find_memory *memory);
/* List the processes now, as the first search after find_memory_expire() does. */
int find_memory_list(struct ocp_ctx *ctx, struct find_memory *memory);

/*
 * Return true if it is PID's turn in ROUND. N processes take turns, about A_ROUND of them in each
 * round.
 */
bool find_is_its_turn(pid_t pid, size_t n, size_t a_round, unsigned int round);

/*
 * Find the processes that run the file with the status FILE and the name BASE. Logs nothing.
 * Finding no process is not an error. The caller frees FOUND, also after an error.
 */
struct stat;
int find_processes(struct ocp_ctx *ctx, const struct stat *file, const char *base,
		   struct find_memory *memory, struct found_processes *found);
void found_processes_free(struct found_processes *found);

/*
 * The hidden processes that a warning has named already. Initialize with { 0 }; the caller frees
 * `pids`.
 */
struct warned_pids {
	pid_t *pids; /* ascending */
	size_t n;
};

/*
 * Log a warning about each hidden process in FOUND that is not in TOLD. BASE is the name of the
 * file. Then move the hidden pids from FOUND to TOLD, in place of the old pids.
 */
void find_warn_of_hidden(struct ocp_ctx *ctx, struct warned_pids *told,
			 struct found_processes *found, const char *base);

#endif

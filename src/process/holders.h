/* SPDX-License-Identifier: MIT */
/* Who has uprobes on the sites of a process. */
#ifndef PROCESS_HOLDERS_H
#define PROCESS_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum { HOLDER_NAME_BYTES = 64 };

struct holder {
	pid_t pid; /* the calling process may be one, with links that it has opened */
	char name[HOLDER_NAME_BYTES];
	size_t n_sites;
	pid_t parent_pid;
	bool is_copy; /* of the parent's */
	/*
	 * The kernel does not tell where its events are, or it is a debugger that traces the process:
	 * it may hold the sites that nobody else has. n_sites is 0.
	 */
	bool may_hold;
};

struct holders {
	struct holder *list;
	size_t n;
	size_t n_sites;		 /* sites with an int3, */
	size_t n_probes;	 /* of so many probes */
	size_t n_unknown;	 /* of these sites: of no holder that is known for sure */
	struct held_site *sites; /* private */
};

/*
 * Find the holders of those of SITES, read from PROC, that have an int3, among the processes that
 * this one may inspect: the kernel tells in /proc/PID/fdinfo where the links are (Linux 6.16). A
 * child with copies of its parent's descriptors is no holder of its own. The caller frees HOLDERS, also after an error. Returns 0 or -ENOMEM.
 */
int holders_find(struct ocp_process *proc, const struct ocp_sites *sites, struct holders *holders);

/* A place with an int3. */
struct holder_place {
	int fd;		  /* of the file */
	const char *path; /* of the file, as the process sees it */
	uint64_t offset;  /* in the file */
};

/* The same for N places; n_probes is 0. FDs and paths are kept until holders_free. */
int holders_find_at(struct ocp_process *proc, const struct holder_place *places, size_t n,
		    struct holders *holders);
/* Set IS_KNOWN of each of these places: does a holder have it for sure? */
void holders_known(const struct holders *holders, bool *is_known);

/* Add the links that this process has opened, as a holder called NAME. */
int holders_add_own(struct ocp_process *proc, struct holders *holders, const char *name);
void holders_free(struct holders *holders);

/*
 * Parse TEXT, of /proc/PID/fdinfo/N. Calls FN for each offset of a uprobe in the file PATH, in the
 * process PID (0: in any).
 */
typedef void (*holder_offset_fn)(void *data, const char *path, pid_t pid, uint64_t offset);
void holders_parse(char *text, holder_offset_fn fn, void *data);

#endif

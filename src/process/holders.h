/* SPDX-License-Identifier: MIT */
/* Find the processes that have uprobes on the sites of a process. */
#ifndef PROCESS_HOLDERS_H
#define PROCESS_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"

enum { HOLDER_NAME_BYTES = 64 };

struct holder {
	pid_t pid; /* the holder; can be the caller, which has opened links itself */
	char name[HOLDER_NAME_BYTES];
	size_t n_sites;
	pid_t parent_pid;
	bool is_copy; /* its descriptors are only copies of its parent's descriptors */
	/*
	 * The holder has perf events whose places the kernel does not show, or is a debugger that
	 * traces the process. So it may hold the sites for which no other holder is known. n_sites
	 * is then 0.
	 */
	bool may_hold;
};

/* A place with an int3. */
struct holder_place {
	int fd;		  /* a descriptor of the file */
	const char *path; /* the path of the file as the process sees it */
	uint64_t offset;  /* the offset of the int3 in the file */
	/* Private. `number` is the index in the caller's list. */
	size_t number;
	/*
	 * is_known: some process holds the site. is_mine: the process that is just being examined
	 * holds it.
	 */
	bool is_known, is_mine;
};

struct holders {
	struct holder *list;
	size_t n;
	size_t n_sites;	  /* the number of sites with an int3 */
	size_t n_probes;  /* the number of probes with such sites */
	size_t n_unknown; /* the number of such sites whose holder is not known for sure */
	struct holder_place *sites; /* private; sorted by offset */
};

/*
 * Find the processes, other than the caller, that hold sites with an int3. SITES were read from
 * PROC. A process is found only if the caller may inspect it: /proc/PID/fdinfo shows where its
 * links are (Linux 6.16). A child that only has copies of its parent's descriptors is left out. The
 * caller frees HOLDERS, also after an error. Returns 0 or -ENOMEM.
 */
int holders_find(struct ocp_process *proc, const struct ocp_sites *sites, struct holders *holders);

/*
 * Do the same as holders_find(), but for N PLACES instead of sites, and set n_probes to 0. The
 * caller keeps the fds and paths of PLACES valid until holders_free().
 */
int holders_find_at(struct ocp_process *proc, const struct holder_place *places, size_t n,
		    struct holders *holders);
/* Set IS_KNOWN[I] to true if some process is known for sure to hold place I, else to false. */
void holders_known(const struct holders *holders, bool *is_known);

/* Add the caller as a holder called NAME, if the caller has opened links to the sites. */
int holders_add_own(struct ocp_process *proc, struct holders *holders, const char *name);
void holders_free(struct holders *holders);

/*
 * Parse TEXT, the contents of /proc/PID/fdinfo/N. Call FN for each uprobe in it, with the file PATH
 * of the uprobe, its offset in this file, and the process PID that it is for (0: all processes).
 */
typedef void (*holder_offset_fn)(void *data, const char *path, pid_t pid, uint64_t offset);
void holders_parse(char *text, holder_offset_fn fn, void *data);

#endif

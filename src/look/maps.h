/* SPDX-License-Identifier: MIT */
/* /proc/PID/maps: the mappings of a process. */
#ifndef LOOK_MAPS_H
#define LOOK_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/* One line of /proc/PID/maps. */
struct mapping {
	uint64_t start, end; /* addresses; end is exclusive */
	uint64_t off;	     /* the offset in the file at which the mapping starts */
	unsigned int dev_major, dev_minor;
	uint64_t inode; /* 0: no file */
	bool readable, writable, executable;
	bool shared; /* MAP_SHARED: writes change the file */
	/* the path as the kernel writes it, e.g. with " (deleted)"; "": no path */
	const char *path;
};

struct maps {
	struct mapping *mappings; /* in ascending order of their addresses */
	size_t n;
	char *text; /* the paths of the mappings point into this text */
};

/* Read the mappings of PID. Returns 0, or -ESRCH, -EPERM or another errno with a message. */
int maps_read(struct ocp_ctx *ctx, pid_t pid, struct maps *maps);
void maps_free(struct maps *maps);

/*
 * Parse TEXT into MAPS, which then owns TEXT: maps_free() frees it. On error, TEXT is freed at
 * once. Returns -EBADMSG if the format is wrong.
 */
int maps_parse(struct ocp_ctx *ctx, char *text, struct maps *maps);

/* Remove from MAPS the mappings in [START, END), a range that has been unmapped. */
void maps_drop(struct maps *maps, uint64_t start, uint64_t end);

/* Return the mapping that contains ADDR, or NULL. */
const struct mapping *maps_find(const struct maps *maps, uint64_t addr);

/*
 * Open the file of M, a mapping of PID, for reading. Returns the descriptor, or -errno without a
 * message; -ENOEXEC: the file is not a regular one.
 */
int maps_open_file(pid_t pid, const struct mapping *m);

#endif

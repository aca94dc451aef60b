/* SPDX-License-Identifier: MIT */
/* Guards a file that has uprobes against being overwritten. See file_guard.c. */
#ifndef MEASURE_FILE_GUARD_H
#define MEASURE_FILE_GUARD_H

#include <stdbool.h>
#include <sys/stat.h>
#include "program/code_probes.h"
#include "program/program.h"

/* What changes when the contents of a file change. */
struct file_identity {
	struct timespec modified, changed;
	off_t bytes;
};

struct file_guard {
	int fd;		/* our own open file description, which has the lease; -1: not guarded */
	bool has_lease; /* an open() of the file for writing waits until we release it */
	bool may_retry; /* no lease yet: the file is open for writing */
	struct file_identity identity;
	unsigned int n_unread; /* failed attempts to read the file since it changed */
};

struct file_identity file_identity_of(const struct stat *st);

/*
 * What a guarded file contained when it was read: its probes, and its measured functions or NULL.
 */
struct guarded {
	const char *name; /* for messages */
	const struct ocp_program *prog;
	const struct code_probes *code;
};

/*
 * Guard the file PATH. WHAT was read when the file had the identity guard->identity. Return -ESTALE
 * if the file has been overwritten since. Return 0 also if the file cannot be guarded.
 */
int file_guard_take(struct ocp_ctx *ctx, struct file_guard *guard, const char *path,
		    const struct guarded *what);

/*
 * Return true if a process waits to write to the file, or if the sites in it have changed. The
 * caller must then remove the uprobes and release the guard.
 */
bool file_guard_is_broken(struct ocp_ctx *ctx, struct file_guard *guard,
			  const struct guarded *what);

/* Release the lease and close the file. A second call does nothing. */
void file_guard_release(struct file_guard *guard);

#endif

/* SPDX-License-Identifier: MIT */
/* Guards a file that has uprobes against being overwritten. See file_guard.c. */
#ifndef MEASURE_FILE_GUARD_H
#define MEASURE_FILE_GUARD_H

#include <stdbool.h>
#include <sys/stat.h>
#include "program/code_probes.h"
#include "program/program.h"

/* Changes when the contents of a file change. */
struct file_identity {
	struct timespec modified, changed;
	off_t bytes;
};

struct file_guard {
	int fd;		/* our own open file description, which has the lease; -1: not guarded */
	bool has_lease; /* an open() for writing waits for us */
	bool may_retry; /* no lease yet: the file is open for writing */
	struct file_identity identity;
	unsigned int n_unread; /* failed reads since it changed */
};

struct file_identity file_identity_of(const struct stat *st);

/* The contents of a guarded file when it was read: its probes, and its functions or NULL. */
struct guarded {
	const char *name; /* for messages */
	const struct ocp_program *prog;
	const struct code_probes *code;
};

/*
 * Guard the file PATH. WHAT was read when the file had guard->identity. Return -ESTALE if the file
 * has been overwritten since. It is not an error if the file cannot be guarded.
 */
int file_guard_take(struct ocp_ctx *ctx, struct file_guard *guard, const char *path,
		    const struct guarded *what);

/*
 * True if a process waits to write to the file, or has changed its sites. The caller must then
 * remove the uprobes and release the guard.
 */
bool file_guard_is_broken(struct ocp_ctx *ctx, struct file_guard *guard,
			  const struct guarded *what);

/* Give up the lease. Can be called twice. */
void file_guard_release(struct file_guard *guard);

#endif

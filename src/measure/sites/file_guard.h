/* SPDX-License-Identifier: MIT */
/* A watch on a file that has uprobes: it must not be overwritten under them. See file_guard.c. */
#ifndef MEASURE_FILE_GUARD_H
#define MEASURE_FILE_GUARD_H

#include <stdbool.h>
#include <sys/stat.h>
#include "program/program.h"

/* What changes when a file's contents do. */
struct file_identity {
	struct timespec modified, changed;
	off_t bytes;
};

struct file_guard {
	int fd;		/* of our own description, which has the lease; -1: not guarded */
	bool has_lease; /* who opens it for writing waits for us */
	bool may_retry; /* somebody has it open for writing now: no lease yet */
	struct file_identity identity;
	unsigned int n_unread; /* looks at it since it changed */
};

struct file_identity file_identity_of(const struct stat *st);

/*
 * Guard the file PATH, called NAME, from which PROG was read when it had guard->identity. -ESTALE
 * if it has been overwritten since. What guards it, if anything does, is no error.
 */
int file_guard_take(struct ocp_ctx *ctx, struct file_guard *guard, const char *path,
		    const char *name, const struct ocp_program *prog);

/*
 * True if somebody waits to write to it, or has changed its sites: then the uprobes have to go, and
 * after them the guard.
 */
bool file_guard_is_broken(struct ocp_ctx *ctx, struct file_guard *guard, const char *name,
			  const struct ocp_program *prog);

/* Whoever waits may write. Twice does no harm. */
void file_guard_release(struct file_guard *guard);

#endif

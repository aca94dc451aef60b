/* SPDX-License-Identifier: MIT */
/*
 * Find a file to write by its path. In a directory that all users may write, such as /tmp, another
 * user can place a symbolic link to a file that only this process may write. So a link anywhere in
 * the path is followed only if it belongs to this user or root. Checked directories stay open, so
 * that nobody can exchange them.
 */
#ifndef SERVE_PLACE_H
#define SERVE_PLACE_H

#include <limits.h>
#include "base/ctx.h"

struct place {
	int folder_fd;		 /* the caller closes it */
	char name[NAME_MAX + 1]; /* in the directory; of a regular file or of no file */
};

/* -EINVAL if PATH is not a regular file, or contains a link of another user. */
int place_find(struct ocp_ctx *ctx, const char *path, struct place *place);

#endif

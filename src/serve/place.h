/* SPDX-License-Identifier: MIT */
/*
 * Find the file that a path names, to write it safely. In a directory that all users may write,
 * such as /tmp, another user can place a symbolic link to a file that only this process may write.
 * So a link anywhere in the path is followed only if it belongs to this user or root. Each
 * directory stays open from its check to the next step of the walk, so that nobody can replace it
 * by another one.
 */
#ifndef SERVE_PLACE_H
#define SERVE_PLACE_H

#include <limits.h>
#include "base/ctx.h"

struct file_place {
	int folder_fd; /* the directory of the file; the caller closes it */
	/* The name in the directory. The file is a regular file or does not exist. */
	char name[NAME_MAX + 1];
};

/*
 * Find PATH. -EINVAL if PATH exists but is not a regular file, or if it contains a symbolic link of
 * another user.
 */
int place_find(struct ocp_ctx *ctx, const char *path, struct file_place *place);

#endif

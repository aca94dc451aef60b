/* SPDX-License-Identifier: MIT */
/*
 * Where a file is that shall be written by its path. In a folder for all, /tmp say, somebody else
 * may have put a symbolic link there, which leads to a file that only we may write. So a link, at
 * the end of the path or before, is followed only if it is our own or root's. What was looked at is
 * open from then on, so that nobody can exchange it.
 */
#ifndef SERVE_PLACE_H
#define SERVE_PLACE_H

#include <limits.h>
#include "base/ctx.h"

struct place {
	int folder_fd;		 /* to be closed */
	char name[NAME_MAX + 1]; /* in it: a regular file, or nothing yet */
};

/* -EINVAL if PATH is something else than a file, or a link of another user's is in it. */
int place_find(struct ocp_ctx *ctx, const char *path, struct place *place);

#endif

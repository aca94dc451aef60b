/* SPDX-License-Identifier: MIT */
/* The directories of the journals of a user. Only a directory that can be trusted is used. */
#ifndef PROCESS_JOURNAL_FOLDER_H
#define PROCESS_JOURNAL_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include "base/ctx.h"

enum { N_JOURNAL_FOLDERS = 3 };

/*
 * Set PATH to directory number FOLDER for the journals of user UID. Return false if user UID has no
 * directory of this number.
 */
bool journal_folder_path(uid_t uid, int folder, char path[PATH_MAX]);

/*
 * Open the directory PATH if it exists and only user UID can access it; else return -1. If other
 * users can access it, log that at LEVEL.
 */
int journal_folder_open(struct ocp_ctx *ctx, const char *path, uid_t uid, enum ocp_log_level level);

/*
 * Open this user's first trusted directory and store its path; create the directory if necessary.
 * Returns -EACCES if there is none. Directories that are not trusted are logged at LEVEL.
 */
int journal_folder_make(struct ocp_ctx *ctx, char path[PATH_MAX], enum ocp_log_level level);

#endif

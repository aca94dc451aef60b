/* SPDX-License-Identifier: MIT */
/* The folders that journals are kept in, one user's each, and which of them are trusted. */
#ifndef PROCESS_JOURNAL_FOLDER_H
#define PROCESS_JOURNAL_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include "base/ctx.h"

enum { N_JOURNAL_FOLDERS = 3 };

/* Folder number FOLDER for the journals of user UID; false if that does not exist. */
bool journal_folder_path(uid_t uid, int folder, char path[PATH_MAX]);

/*
 * Open the folder PATH if it is UID's and nobody else's; -1 if there is no such. One that belongs
 * to others is said in the log at LEVEL.
 */
int journal_folder_open(struct ocp_ctx *ctx, const char *path, uid_t uid, enum ocp_log_level level);

/*
 * Open our first folder that can be had, made if need be, and store its path. -EACCES if there is
 * none; those that are not trusted are said in the log at LEVEL.
 */
int journal_folder_make(struct ocp_ctx *ctx, char path[PATH_MAX], enum ocp_log_level level);

#endif

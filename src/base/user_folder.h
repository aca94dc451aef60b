/* SPDX-License-Identifier: MIT */
/*
 * The directory of a user for files that only this user's tools may read: undo journals, and the
 * sockets of flight recorders. It is $XDG_RUNTIME_DIR/ocaml-probes, else
 * /run/user/UID/ocaml-probes, else /tmp/ocaml-probes-UID. Any user can create the one in /tmp. So a
 * directory is used only if it is not a symbolic link, belongs to user UID and is closed to all
 * other users; open its files relative to its descriptor. Test: test_journal:
 * folders_that_others_can_reach_are_not_used.
 */
#ifndef BASE_USER_FOLDER_H
#define BASE_USER_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/ctx.h"

enum { N_USER_FOLDERS = 3 };

/*
 * Set PATH to the directory number FOLDER (0 to N_USER_FOLDERS - 1) of user UID. Return false if
 * user UID has no directory with this number.
 */
bool user_folder_path(uid_t uid, int folder, char path[PATH_MAX]);

/*
 * Open the directory PATH if it exists and only user UID can access it; else return -1. If other
 * users can access the directory, log this at LEVEL.
 */
int user_folder_open(struct ocp_ctx *ctx, const char *path, uid_t uid, enum ocp_log_level level);

/*
 * Open the first directory of this user that is trusted, and store its path in PATH. Create the
 * directory if necessary. WHAT says in the error what it is for. Returns the descriptor, or -EACCES
 * with a message in CTX if no directory is trusted. Directories that are not trusted are logged at
 * LEVEL.
 */
int user_folder_make(struct ocp_ctx *ctx, const char *what, char path[PATH_MAX],
		     enum ocp_log_level level);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The files that `profile`, `memprof` and `report` write. An existing file is replaced only when
 * the new file is complete. Until then, the new file is called PATH.PID.tmp.
 */
#ifndef TOOL_PROFILE_FILES_H
#define TOOL_PROFILE_FILES_H

#include <stdbool.h>
#include <stdio.h>
#include "base/ctx.h"
#include "cli/cli.h"

/* Set *FILE to VALUE, the file of option NAME, which may be given once. Returns an exit code. */
int profile_file_set(const struct command *command, const char *name, const char *value,
		     const char **file);

/*
 * Return true if the paths A and B lead to the same file, or would do so if the file existed. A and
 * B may be NULL.
 */
bool profile_file_is_same(const char *a, const char *b);

/* Check that PATH can be written. Return 0 also if PATH is NULL. */
int profile_file_check(struct ocp_ctx *ctx, const char *path);

/* Write the file PATH by calling WRITE with DATA. */
int profile_file_write(struct ocp_ctx *ctx, const char *path,
		       int (*write)(struct ocp_ctx *ctx, const void *data, FILE *to),
		       const void *data);

/* A file that is written piece by piece. */
struct profile_file;

/* Begin to write PATH. The string PATH must exist until the file is finished or abandoned. */
int profile_file_open(struct ocp_ctx *ctx, const char *path, struct profile_file **out);
FILE *profile_file_stream(struct profile_file *file);
/* Complete the file: give it its final name. Frees FILE. */
int profile_file_finish(struct profile_file *file);
/* Remove the incomplete new file, and free FILE, which may be NULL. */
void profile_file_abandon(struct profile_file *file);

#endif

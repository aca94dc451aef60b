/* SPDX-License-Identifier: MIT */
/*
 * The files that `profile` and `memprof` write. A file that is there is replaced when the new one is whole;
 * until then, that stands beside it under another name: PATH.PID.tmp.
 */
#ifndef TOOL_PROFILE_FILES_H
#define TOOL_PROFILE_FILES_H

#include <stdbool.h>
#include <stdio.h>
#include "base/ctx.h"
#include "cli/cli.h"

/* The option NAME has the file VALUE, which may be given once: set *FILE. Returns an exit code. */
int profile_file_set(const struct command *command, const char *name, const char *value,
		     const char **file);

/* Do the paths A and B, which may be NULL, lead to one file, or would they, once it is written? */
bool profile_file_is_same(const char *a, const char *b);

/* Can PATH be written? NULL can. */
int profile_file_check(struct ocp_ctx *ctx, const char *path);

/* Let WRITE write PATH. */
int profile_file_write(struct ocp_ctx *ctx, const char *path,
		       int (*write)(struct ocp_ctx *ctx, const void *data, FILE *to),
		       const void *data);

/* A file that is written bit by bit. */
struct profile_file;

/* Begin PATH, which exists until the file is finished or abandoned. */
int profile_file_open(struct ocp_ctx *ctx, const char *path, struct profile_file **out);
FILE *profile_file_stream(struct profile_file *file);
/* It is whole. FILE is freed. */
int profile_file_finish(struct profile_file *file);
/* Remove what has been written. NULL is nothing. */
void profile_file_abandon(struct profile_file *file);

#endif

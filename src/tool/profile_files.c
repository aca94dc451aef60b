// SPDX-License-Identifier: MIT
#include "tool/profile_files.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_name.h"

struct profile_file {
	struct ocp_ctx *ctx;
	const char *path;
	char *temporary;
	FILE *to;
};

int profile_file_set(const struct command *command, const char *name, const char *value,
		     const char **file)
{
	if (*file)
		return say_usage(command, "--%s: given twice", name);
	if (!*value)
		return say_usage(command, "--%s: the name of the file is empty", name);
	*file = value;
	return EXIT_DONE;
}

/*
 * Return the part of PATH after the last slash, and set *ST to the status of the directory. Return
 * NULL if there is no such directory.
 */
static const char *split(const char *path, struct stat *st)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	const bool is_there = folder && stat(folder, st) == 0;

	free(folder);
	return !is_there ? NULL : base_name(path);
}

bool profile_file_is_same(const char *a, const char *b)
{
	const char *name_a, *name_b;
	struct stat x, y;

	if (!a || !b)
		return false;
	if (strcmp(a, b) == 0 ||
	    (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino))
		return true;
	name_a = split(a, &x);
	name_b = split(b, &y);
	return name_a && name_b && strcmp(name_a, name_b) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static int say_why(struct ocp_ctx *ctx, const char *path)
{
	return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
}

int profile_file_open(struct ocp_ctx *ctx, const char *path, struct profile_file **out)
{
	struct profile_file *file;
	struct stat st;
	int err;

	*out = NULL;
	if (strcmp(path, "-") == 0)
		return ctx_error(ctx, -EINVAL,
				 "-: a file is needed, not standard output (./- is the file of "
				 "this name)");
	/* Refuse devices and FIFOs: a file must not replace them. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return ctx_error(ctx, -EINVAL, "%s: %s", path,
				 S_ISDIR(st.st_mode) ? strerror(EISDIR) : "not a regular file");
	file = calloc(1, sizeof(*file));
	if (!file)
		return ctx_no_memory(ctx);
	file->ctx = ctx;
	file->path = path;
	if (asprintf(&file->temporary, "%s.%d.tmp", path, (int)getpid()) < 0) {
		free(file);
		return ctx_no_memory(ctx);
	}
	file->to = fopen(file->temporary, "wxe");
	if (!file->to) {
		err = say_why(ctx, path);
		profile_file_abandon(file);
		return err;
	}
	*out = file;
	return 0;
}

FILE *profile_file_stream(struct profile_file *file)
{
	return file->to;
}

int profile_file_finish(struct profile_file *file)
{
	/* fclose() alone does not report earlier write errors. */
	const bool is_written = fflush(file->to) == 0 && !ferror(file->to);
	const bool is_closed = fclose(file->to) == 0;
	int err = is_written && is_closed && rename(file->temporary, file->path) == 0
			  ? 0
			  : say_why(file->ctx, file->path);

	file->to = NULL;
	if (err)
		unlink(file->temporary);
	free(file->temporary);
	free(file);
	return err;
}

void profile_file_abandon(struct profile_file *file)
{
	if (!file)
		return;
	if (file->to) {
		fclose(file->to);
		unlink(file->temporary);
	}
	free(file->temporary);
	free(file);
}

int profile_file_check(struct ocp_ctx *ctx, const char *path)
{
	struct profile_file *file = NULL;
	int err = path ? profile_file_open(ctx, path, &file) : 0;

	profile_file_abandon(file);
	return err;
}

int profile_file_write(struct ocp_ctx *ctx, const char *path,
		       int (*write)(struct ocp_ctx *ctx, const void *data, FILE *to),
		       const void *data)
{
	struct profile_file *file;
	int err = profile_file_open(ctx, path, &file);

	if (!file)
		return err;
	err = write(ctx, data, file->to);
	if (!err)
		return profile_file_finish(file);
	ctx_error_prefix(ctx, "%s", path);
	profile_file_abandon(file);
	return err;
}

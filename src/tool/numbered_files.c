// SPDX-License-Identifier: MIT
#include "tool/numbered_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_name.h"

/* Return the length of the part of OUTPUT before its extension. */
static size_t stem_bytes(const char *output)
{
	const char *slash = strrchr(output, '/');
	const char *dot = strrchr(slash ? slash : output, '.');

	return dot && dot != output && dot[-1] != '/' ? (size_t)(dot - output) : strlen(output);
}

char *numbered_file_path(const char *output, size_t n)
{
	const size_t stem = stem_bytes(output);
	char *path;

	return asprintf(&path, "%.*s-%zu%s", (int)stem, output, n, output + stem) < 0 ? NULL : path;
}

/* Return the number of the file FOUND if it is a file of NAME with a number, else 0. */
static size_t number_of(const char *found, const char *name)
{
	const size_t stem = stem_bytes(name);
	unsigned long long number;
	char *end;

	if (strncmp(found, name, stem) != 0 || found[stem] != '-' || found[stem + 1] < '1' ||
	    found[stem + 1] > '9')
		return 0;
	errno = 0;
	number = strtoull(found + stem + 1, &end, 10);
	return errno || number >= SIZE_MAX / 2 || strcmp(end, name + stem) != 0 ? 0
										: (size_t)number;
}

int numbered_file_last(struct ocp_ctx *ctx, const char *output, size_t *last)
{
	const char *slash = strrchr(output, '/'), *name = base_name(output);
	char *path = slash ? strndup(output, (size_t)(slash - output) + 1) : strdup(".");
	DIR *folder = path ? opendir(path) : NULL;
	const struct dirent *entry;
	int err = 0;

	*last = 0;
	if (!folder) {
		err = path ? ctx_error(ctx, -errno, "%s: %s", path, strerror(errno))
			   : ctx_no_memory(ctx);
		free(path);
		return err;
	}
	while (errno = 0, (entry = readdir(folder))) {
		const size_t number = number_of(entry->d_name, name);

		*last = number > *last ? number : *last;
	}
	if (errno)
		err = ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	closedir(folder);
	free(path);
	return err;
}

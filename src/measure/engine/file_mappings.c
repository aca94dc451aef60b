// SPDX-License-Identifier: MIT
#include "measure/engine/file_mappings.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "look/proc_file.h"

/*
 * Return true if M maps FILE. Compare only the inodes, because on overlayfs and btrfs, the device
 * of a mapping differs from the device of its file. In addition, if a file exists at the path of
 * the mapping, it must be FILE.
 */
static bool is_of_file(const struct file_mappings *file, const struct mapping *m)
{
	char path[PATH_MAX + PROC_PATH_BYTES];
	struct stat st;

	if (m->inode != file->stat.st_ino)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)file->pid, m->path);
	return stat(path, &st) != 0 ||
	       (st.st_ino == file->stat.st_ino && st.st_dev == file->stat.st_dev);
}

int file_mappings_find(struct ocp_ctx *ctx, const struct maps *maps, struct file_mappings *file)
{
	file->mappings = calloc(maps->n + 1, sizeof(*file->mappings));
	if (!file->mappings)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < maps->n; i++)
		if (is_of_file(file, &maps->mappings[i]))
			file->mappings[file->n++] = maps->mappings[i];
	return 0;
}

size_t file_mappings_address(const struct file_mappings *file, uint64_t off, bool executable,
			     uint64_t *addr)
{
	size_t n = 0;

	for (size_t i = 0; i < file->n; i++) {
		const struct mapping *m = &file->mappings[i];

		if ((executable ? m->executable : m->writable) && off >= m->off &&
		    off - m->off < m->end - m->start) {
			*addr = m->start + (off - m->off);
			n++;
		}
	}
	return n;
}

// SPDX-License-Identifier: MIT
#include "measure/kept_folder.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define BPFFS "/sys/fs/bpf"

enum { MAX_NAME_BYTES = 64 };

int kept_folder_of(struct ocp_ctx *ctx, const char *name, char *folder)
{
	const size_t bytes = strlen(name);

	if (bytes == 0 || bytes > MAX_NAME_BYTES ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
		    bytes)
		return ctx_error(ctx, -EINVAL,
				 "'%s': not a name to keep things by (1 to %d of A-Z a-z 0-9 _ -)",
				 name, MAX_NAME_BYTES);
	snprintf(folder, KEPT_PATH_BYTES, "%s/%s", OCP_KEPT_FOLDER, name);
	return 0;
}

/* bpffs is mounted nearly everywhere; where it is not, we may. */
int kept_need_bpffs(struct ocp_ctx *ctx)
{
	struct statfs fs;

	if (statfs(BPFFS, &fs) == 0 && fs.f_type == BPF_FS_MAGIC)
		return 0;
	if (mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") == 0) {
		ctx_log(ctx, OCP_LOG_INFO, "%s: mounted", BPFFS);
		return 0;
	}
	ctx_error(ctx, -errno, "%s: no BPF file system is mounted there, and mounting one: %s",
		  BPFFS, strerror(errno));
	ctx_hint(ctx, "sudo mount -t bpf bpf %s", BPFFS);
	return -errno;
}

int kept_remove_names(struct ocp_ctx *ctx, const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	int err = 0;

	if (!dir)
		return ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	while (!err && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    unlinkat(dirfd(dir), entry->d_name, 0))
			err = ctx_error(ctx, -errno, "%s/%s: %s", folder, entry->d_name,
					strerror(errno));
	closedir(dir);
	if (!err && rmdir(folder))
		err = ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	return err;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int ocp_kept_list(struct ocp_ctx *ctx, char ***names, size_t *n)
{
	struct dirent **entries = NULL;
	int found = scandir(OCP_KEPT_FOLDER, &entries, NULL, alphasort);
	size_t bytes = 0;
	char *text;

	*names = NULL;
	*n = 0;
	if (found < 0 && errno != ENOENT)
		return ctx_error(ctx, -errno, "%s: %s", OCP_KEPT_FOLDER, strerror(errno));
	for (int i = 0; i < found; i++)
		bytes += sizeof(char *) + strlen(entries[i]->d_name) + 1;
	*names = calloc(bytes + sizeof(char *), 1);
	text = *names ? (char *)(*names + (found > 0 ? found : 0)) : NULL;
	for (int i = 0; i < found; i++) {
		if (text && entries[i]->d_name[0] != '.') {
			(*names)[(*n)++] = text;
			text = stpcpy(text, entries[i]->d_name) + 1;
		}
		free(entries[i]);
	}
	free(entries);
	if (!*names)
		return ctx_no_memory(ctx);
	qsort(*names, *n, sizeof(**names), compare_names);
	return 0;
}

static int is_taken(struct ocp_ctx *ctx, const char *name)
{
	ctx_error(ctx, -EEXIST, "'%s': is kept already", name);
	ctx_hint(ctx, "ocaml-probes read %s, or ocaml-probes detach %s", name, name);
	return -EEXIST;
}

int ocp_kept_check(struct ocp_ctx *ctx, const char *name)
{
	char folder[KEPT_PATH_BYTES];
	struct stat st;
	int err = kept_folder_of(ctx, name, folder);

	if (!err)
		err = kept_need_bpffs(ctx);
	if (!err && stat(folder, &st) == 0)
		err = is_taken(ctx, name);
	return err;
}

int kept_make_folder(struct ocp_ctx *ctx, const char *name, const char *folder)
{
	if (mkdir(OCP_KEPT_FOLDER, 0700) && errno != EEXIST)
		return ctx_error(ctx, -errno, "%s: %s", OCP_KEPT_FOLDER, strerror(errno));
	if (mkdir(folder, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	return is_taken(ctx, name);
}

// SPDX-License-Identifier: MIT
#include "measure/pin_folder.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "kernel/pinned.h"
#include "measure/found.h"

#define BPFFS "/sys/fs/bpf"

int pin_folder_of(struct ocp_ctx *ctx, const char *name, char *folder)
{
	if (!pin_name_is_valid(name))
		return ctx_error(ctx, -EINVAL,
				 "'%s': invalid name (allowed are 1 to %d of A-Z a-z 0-9 _ -)",
				 name, PIN_MAX_NAME_BYTES);
	snprintf(folder, PIN_PATH_BYTES, "%s/%s", OCP_PINNED_FOLDER, name);
	return 0;
}

/* bpffs is mounted on most systems. If it is not, mount it if we have the privilege. */
int pin_need_bpffs(struct ocp_ctx *ctx)
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
	/* The default mode, 1777, would let all users write to it. */
	ctx_hint(ctx, "sudo mount -t bpf -o mode=0700 bpf %s", BPFFS);
	return -errno;
}

/*
 * Check that PATH is a directory that only root and we can change. If SHARED, accept a directory in
 * which other users may make files, too, if they cannot change our files there (the sticky bit).
 * Return 0 or a negative errno; -ENOENT has no message.
 */
static int check_folder(struct ocp_ctx *ctx, const char *path, bool shared)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? -ENOENT
				       : ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return ctx_error(ctx, -EPERM, "%s: not a directory", path);
	if (st.st_uid != 0 && st.st_uid != geteuid()) {
		ctx_error(ctx, -EPERM,
			  "%s: belongs to user %u, who could have changed its contents", path,
			  (unsigned int)st.st_uid);
		ctx_hint(ctx, "sudo rm -r %s", path);
		return -EPERM;
	}
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(shared && (st.st_mode & S_ISVTX))) {
		ctx_error(ctx, -EPERM, "%s: other users can write to it (mode %04o)", path,
			  st.st_mode & 07777);
		ctx_hint(ctx, "sudo chmod go-w %s", path);
		return -EPERM;
	}
	return 0;
}

/* Check the directory of all pinned meters and its parent. */
static int check_top(struct ocp_ctx *ctx)
{
	int err = check_folder(ctx, BPFFS, true);

	return err ? err : check_folder(ctx, OCP_PINNED_FOLDER, false);
}

int pin_check_folder(struct ocp_ctx *ctx, const char *name, const char *folder)
{
	int err = check_top(ctx);

	if (!err)
		err = check_folder(ctx, folder, false);
	return err == -ENOENT ? ctx_error(ctx, err, "'%s': no kept measurement of this name", name)
			      : err;
}

int pin_remove_names(struct ocp_ctx *ctx, const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	int err = 0;

	if (!dir)
		return ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	while (!err && (errno = 0, entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    unlinkat(dirfd(dir), entry->d_name, 0))
			err = ctx_error(ctx, -errno, "%s/%s: %s", folder, entry->d_name,
					strerror(errno));
	if (!err && errno)
		err = ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	closedir(dir);
	if (!err && rmdir(folder))
		err = ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	return err;
}

int pin_list_folders(struct ocp_ctx *ctx, char ***names, size_t *n)
{
	struct dirent **entries = NULL;
	int found, err = check_top(ctx);
	size_t bytes = 0;
	char *text;

	*names = NULL;
	*n = 0;
	if (err && err != -ENOENT)
		return err;
	found = scandir(OCP_PINNED_FOLDER, &entries, NULL, alphasort);
	if (found < 0 && errno != ENOENT)
		return ctx_error(ctx, -errno, "%s: %s", OCP_PINNED_FOLDER, strerror(errno));
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
	return 0;
}

int pin_is_taken(struct ocp_ctx *ctx, const char *name)
{
	ctx_error(ctx, -EEXIST, "'%s': a kept measurement of this name exists", name);
	ctx_hint(ctx, "ocaml-probes read %s, or ocaml-probes detach %s", name, name);
	return -EEXIST;
}

int ocp_pinned_check(struct ocp_ctx *ctx, const char *name)
{
	char folder[PIN_PATH_BYTES];
	struct stat st;
	int err = pin_folder_of(ctx, name, folder);

	if (!err)
		err = pin_need_bpffs(ctx);
	if (!err)
		err = check_top(ctx);
	if (err && err != -ENOENT)
		return err;
	if (stat(folder, &st) == 0)
		return pin_is_taken(ctx, name);
	return found_check_name_free(ctx, name);
}

int pin_check_name_free(struct ocp_ctx *ctx, const char *name)
{
	char folder[PIN_PATH_BYTES];
	struct stat st;
	int err = pin_folder_of(ctx, name, folder);

	return !err && stat(folder, &st) == 0 ? pin_is_taken(ctx, name) : err;
}

int pin_make_folder(struct ocp_ctx *ctx, const char *name, const char *folder)
{
	int err;

	if (mkdir(OCP_PINNED_FOLDER, 0700) && errno != EEXIST)
		return ctx_error(ctx, -errno, "%s: %s", OCP_PINNED_FOLDER, strerror(errno));
	err = check_top(ctx);
	if (err)
		return err;
	if (mkdir(folder, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	return pin_is_taken(ctx, name);
}

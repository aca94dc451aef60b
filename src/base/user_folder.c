// SPDX-License-Identifier: MIT
#include "base/user_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool user_folder_path(uid_t uid, int folder, char path[PATH_MAX])
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int n = 0;

	switch (folder) {
	case 0:
		if (uid == geteuid() && runtime && runtime[0] == '/')
			n = snprintf(path, PATH_MAX, "%s/ocaml-probes", runtime);
		break;
	case 1:
		n = snprintf(path, PATH_MAX, "/run/user/%u/ocaml-probes", uid);
		break;
	default:
		n = snprintf(path, PATH_MAX, "/tmp/ocaml-probes-%u", uid);
		break;
	}
	return n > 0 && n < PATH_MAX;
}

int user_folder_open(struct ocp_ctx *ctx, const char *path, uid_t uid, enum ocp_log_level level)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_uid == uid && (st.st_mode & 077) == 0)
		return fd;
	ctx_log(ctx, level, "%s: is not used: other users than uid %u can access it", path, uid);
	close(fd);
	return -1;
}

int user_folder_make(struct ocp_ctx *ctx, const char *what, char path[PATH_MAX],
		     enum ocp_log_level level)
{
	for (int folder = 0; folder < N_USER_FOLDERS; folder++) {
		int fd;

		if (!user_folder_path(geteuid(), folder, path))
			continue;
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			continue;
		fd = user_folder_open(ctx, path, geteuid(), level);
		if (fd >= 0)
			return fd;
	}
	ctx_error(ctx, -EACCES, "%s: cannot create the directory of %s", path, what);
	ctx_hint(ctx, "set XDG_RUNTIME_DIR to a directory that you own");
	return -EACCES;
}

// SPDX-License-Identifier: MIT
/*
 * A child writes: killing the program, at whatever system call, does not keep it from ending what
 * it began, so that no .NAME.new is left over. Only what ends all processes at once may leave one
 * (a control group's kill, a power cut), and the next write replaces it. That takes a moment
 * between two system calls, since the new file has no name while it is written (O_TMPFILE); where
 * file systems know no files without names it has that one from the start.
 */
#include "serve/textfile.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MODE = 0644 };

static int write_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		ssize_t done = write(fd, bytes, n);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			bytes += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

/* Give what is written to FD the name NEW, which may be left over. */
static int give_name(int fd, const char *new)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, link, AT_FDCWD, new, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno != EEXIST || unlink(new) != 0)
		return -errno;
	return linkat(AT_FDCWD, link, AT_FDCWD, new, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

/* A file in FOLDER, without a name if that can be had, else with the name NEW. */
static int open_new(const char *folder, const char *new, bool *is_named)
{
	int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE);

	*is_named = false;
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd < 0 ? -errno : fd;
	unlink(new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE);
	*is_named = fd >= 0;
	return fd < 0 ? -errno : fd;
}

static int replace(const char *path, const char *folder, const char *new, const struct body *body)
{
	bool is_named;
	int fd = open_new(folder, new, &is_named);
	int err = fd < 0 ? fd : 0;

	if (!err)
		err = write_all(fd, body->bytes, body->n);
	/* Whatever the umask is: others read it. */
	if (!err && fchmod(fd, MODE) != 0)
		err = -errno;
	if (!err && !is_named) {
		err = give_name(fd, new);
		is_named = !err;
	}
	if (!err && rename(new, path) != 0)
		err = -errno;
	if (err && is_named)
		unlink(new);
	if (fd >= 0)
		close(fd);
	return err;
}

/*
 * replace() in a child of its own, which makes system calls alone: other threads may have been in
 * malloc. Its exit status is the error's number; those that files give are below 134 on Linux.
 */
static int replace_in_child(const char *path, const char *folder, const char *new,
			    const struct body *body)
{
	pid_t pid = fork(), waited;
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		/* A signal to the program's process group is none to the child. */
		setsid();
		_exit(-replace(path, folder, new, body));
	}
	do
		waited = waitpid(pid, &status, 0);
	while (waited < 0 && errno == EINTR);
	if (waited < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

/* Nothing else may be replaced: neither /dev/null nor a link to it. */
static int check_kind(struct ocp_ctx *ctx, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
		return 0;
	return ctx_error(ctx, -EINVAL, "%s: not a regular file", path);
}

int textfile_write(struct ocp_ctx *ctx, const char *given, const struct body *body)
{
	char folder[PATH_MAX], new[PATH_MAX], real[PATH_MAX];
	const char *path = realpath(given, real) ? real : given;
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	int err = check_kind(ctx, given), n;

	if (err)
		return err;
	if (body->is_short)
		return ctx_no_memory(ctx);
	if (!slash)
		snprintf(folder, sizeof(folder), ".");
	else
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash == path ? 1 : slash - path),
			 path);
	n = snprintf(new, sizeof(new), "%.*s.%s.new", (int)(base - path), path, base);
	if (n < 0 || (size_t)n >= sizeof(new))
		return ctx_error(ctx, -ENAMETOOLONG, "%s: %s", given, strerror(ENAMETOOLONG));
	err = replace_in_child(path, folder, new, body);
	return err ? ctx_error(ctx, err, "%s: %s", given, strerror(-err)) : 0;
}

// SPDX-License-Identifier: MIT
/*
 * A child process writes the file. If this program is killed, even during a system call, the child
 * still completes the write, so no file .NAME.new is left behind. That file can be left only if all
 * processes are killed at once (a control group, or a power failure), and only between two system
 * calls, since the new file has no name while it is written (O_TMPFILE). On file systems without
 * O_TMPFILE, the new file is called .NAME.new from the start. The next write removes a file
 * .NAME.new that was left.
 */
#include "serve/textfile.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "serve/place.h"

enum { MODE = 0644 };

/* The result that the child stores in shared memory. */
struct write_outcome {
	int err;	/* 0 or -errno */
	bool is_unlink; /* `err` is from the attempt to remove an old .NAME.new */
	int left;	/* 0, or -errno if the new file could not be removed after an error */
};

static int write_all(int fd, const char *bytes, size_t n)
{
	struct interruptions interruptions = { 0 };

	while (n) {
		ssize_t done = write(fd, bytes, n);

		if (done < 0 && !is_interrupted(&interruptions))
			return -errno;
		if (done > 0) {
			bytes += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

static int link_to_name(int fd, int folder_fd, const char *new)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, link, folder_fd, new, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

/* Remove the file NEW that an earlier run has left, if there is one. */
static int remove_old(int folder_fd, const char *new, struct write_outcome *outcome)
{
	outcome->is_unlink = unlinkat(folder_fd, new, 0) != 0 && errno != ENOENT;
	return outcome->is_unlink ? -errno : 0;
}

/* Give the file FD the name NEW. If that name exists, remove the old file first. */
static int give_name(int fd, int folder_fd, const char *new, struct write_outcome *outcome)
{
	int err = link_to_name(fd, folder_fd, new);

	if (err != -EEXIST)
		return err;
	err = remove_old(folder_fd, new, outcome);
	return err ? err : link_to_name(fd, folder_fd, new);
}

/*
 * Open a new file in the directory, without a name if the file system supports this, otherwise
 * called NEW. Set *IS_NAMED accordingly.
 */
static int open_new(int folder_fd, const char *new, bool *is_named, struct write_outcome *outcome)
{
	int fd = openat(folder_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE), err;

	*is_named = false;
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd < 0 ? -errno : fd;
	err = remove_old(folder_fd, new, outcome);
	if (err)
		return err;
	fd = openat(folder_fd, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE);
	*is_named = fd >= 0;
	return fd < 0 ? -errno : fd;
}

static void replace(const struct file_place *place, const char *new, const struct strbuf *body,
		    struct write_outcome *outcome)
{
	bool is_named;
	int fd = open_new(place->folder_fd, new, &is_named, outcome);
	int err = fd < 0 ? fd : 0;

	if (!err)
		err = write_all(fd, body->bytes, body->n);
	/* Other users read the file, so set its mode despite the umask. */
	if (!err && fchmod(fd, MODE) != 0)
		err = -errno;
	if (!err && !is_named) {
		err = give_name(fd, place->folder_fd, new, outcome);
		is_named = !err;
	}
	/* A symbolic link at this path is replaced, not followed. */
	if (!err && renameat(place->folder_fd, new, place->folder_fd, place->name) != 0)
		err = -errno;
	if (err && is_named && unlinkat(place->folder_fd, new, 0) != 0)
		outcome->left = -errno;
	if (fd >= 0)
		close(fd);
	outcome->err = err;
}

/*
 * Run replace() in a child process. The child only makes system calls, since another thread may
 * have held malloc's lock at the fork. OUTCOME must be in shared memory.
 */
static int replace_in_child(const struct file_place *place, const char *new,
			    const struct strbuf *body, struct write_outcome *outcome)
{
	struct interruptions interruptions = { 0 };
	pid_t pid = fork(), waited;
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		/* Leave the process group, so that signals to the group do not reach the child. */
		setsid();
		replace(place, new, body, outcome);
		_exit(0);
	}
	do
		waited = waitpid(pid, &status, 0);
	while (waited < 0 && is_interrupted(&interruptions));
	if (waited < 0)
		return -errno;
	return WIFEXITED(status) ? outcome->err : -EINTR;
}

/*
 * Return an error if PATH exists and is not a regular file: neither /dev/null nor a link to it may
 * be replaced.
 */
static int check_replaceable(struct ocp_ctx *ctx, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
		return 0;
	return ctx_error(ctx, -EINVAL, "%s: not a regular file", path);
}

static int say_outcome(struct ocp_ctx *ctx, const char *given, const char *new, int err,
		       const struct write_outcome *outcome)
{
	if (outcome->is_unlink)
		return ctx_error(ctx, err, "%s: cannot remove %s beside it: %s", given, new,
				 strerror(-err));
	if (outcome->left)
		return ctx_error(ctx, err, "%s: %s; and cannot remove %s beside it: %s", given,
				 strerror(-err), new, strerror(-outcome->left));
	return err ? ctx_error(ctx, err, "%s: %s", given, strerror(-err)) : 0;
}

static int write_at(struct ocp_ctx *ctx, const char *given, const struct file_place *place,
		    const struct strbuf *body)
{
	char new[NAME_MAX + 1];
	struct write_outcome *outcome;
	const int n = snprintf(new, sizeof(new), ".%s.new", place->name);
	int err;

	if (n < 0 || (size_t)n >= sizeof(new))
		return ctx_error(ctx, -ENAMETOOLONG, "%s: %s", given, strerror(ENAMETOOLONG));
	outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (outcome == MAP_FAILED)
		return ctx_no_memory(ctx);
	err = replace_in_child(place, new, body, outcome);
	err = say_outcome(ctx, given, new, err, outcome);
	munmap(outcome, sizeof(*outcome));
	return err;
}

int textfile_write(struct ocp_ctx *ctx, const char *given, const struct strbuf *body)
{
	struct file_place place;
	int err = check_replaceable(ctx, given);

	if (!err)
		err = place_find(ctx, given, &place);
	if (err)
		return err;
	err = body->is_short ? ctx_no_memory(ctx) : write_at(ctx, given, &place, body);
	close(place.folder_fd);
	return err;
}

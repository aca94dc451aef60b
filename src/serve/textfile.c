// SPDX-License-Identifier: MIT
/*
 * A child process writes the file. If this program is killed, even during a system call, the child
 * still completes the write, so no file .NAME.new is left behind. A file .NAME.new can be left only
 * if all processes end at once (the control group is killed, or the power fails), and only between
 * two system calls: while the new file is written, it has no name (O_TMPFILE). On file systems
 * without O_TMPFILE, the new file is called .NAME.new from the start. The next write removes a file
 * .NAME.new that was left.
 */
#include "serve/textfile.h"

#include <errno.h>
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

enum { MODE = 0644, MAX_LINKS = 40 };

/* ---- the place of the file ------------------------------------------------------------------ */

/*
 * Find the file that a path names, to write it safely. In a directory that all users may write,
 * such as /tmp, another user can place a symbolic link to a file that only this process may write.
 * So a link anywhere in the path is followed only if it belongs to this user or root. Each
 * directory stays open from its check to the next step of the walk, so that nobody can replace the
 * directory by another one.
 */

struct file_place {
	int folder_fd; /* the directory of the file; the caller closes it */
	/* The name in the directory. The file is a regular file or does not exist. */
	char name[NAME_MAX + 1];
};

/* The state of walking a path. */
struct path_walk {
	struct ocp_ctx *ctx;
	const char *path; /* the whole path, for errors */
	/* the directory that the walk has reached; -1: the walk has not begun */
	int fd;
	char rest[PATH_MAX]; /* the part of the path still to walk */
	unsigned int n_links;
};

static int fail(const struct path_walk *w, int number)
{
	return ctx_error(w->ctx, -number, "%s: %s", w->path, strerror(number));
}

static int no_file(const struct path_walk *w)
{
	return ctx_error(w->ctx, -EINVAL, "%s: not a regular file", w->path);
}

/* Make FD the directory that the walk has reached. */
static void enter(struct path_walk *w, int fd)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = fd;
}

/*
 * Set the rest of the walk to PATH. If PATH is absolute, go to the root directory. -ENAMETOOLONG if
 * PATH is too long.
 */
static int set_rest(struct path_walk *w, const char *path)
{
	if (strlen(path) >= sizeof(w->rest))
		return fail(w, ENAMETOOLONG);
	memmove(w->rest, path, strlen(path) + 1);
	if (*path != '/')
		return 0;
	enter(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
	return w->fd < 0 ? fail(w, errno) : 0;
}

/*
 * Remove the first name from the rest of the path and copy it to NAME. Return false if the rest is
 * empty, or if the name is too long (then set *ERR).
 */
static bool next_name(struct path_walk *w, char name[NAME_MAX + 1], int *err)
{
	const char *first = w->rest + strspn(w->rest, "/");
	const size_t n = strcspn(first, "/");

	*err = n > NAME_MAX ? fail(w, ENAMETOOLONG) : 0;
	if (!n || *err)
		return false;
	memcpy(name, first, n);
	name[n] = '\0';
	memmove(w->rest, first + n, strlen(first + n) + 1);
	return true;
}

/* Put the contents of the symbolic link FD, called NAME, before the rest of the path. */
static int follow_link(struct path_walk *w, int fd, const char *name, const struct stat *st)
{
	char path[2 * PATH_MAX];
	ssize_t n;

	if (st->st_uid != geteuid() && st->st_uid != 0)
		return ctx_error(w->ctx, -EINVAL,
				 "%s: '%s' is a symbolic link of another user (uid %u)", w->path,
				 name, (unsigned int)st->st_uid);
	if (++w->n_links > MAX_LINKS)
		return fail(w, ELOOP);
	n = readlinkat(fd, "", path, PATH_MAX);
	if (n < 0)
		return fail(w, errno);
	snprintf(path + n, sizeof(path) - (size_t)n, "%s", w->rest);
	return set_rest(w, path);
}

/*
 * Walk to NAME in the current directory. Return 1 if NAME is the end of the path, 0 if the walk
 * continues, or -errno.
 */
static int walk_to(struct path_walk *w, const char *name)
{
	const bool is_last = !*w->rest;
	const int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int err;

	if (fd < 0)
		return errno == ENOENT && is_last ? 1 : fail(w, errno);
	if (fstat(fd, &st) != 0) {
		err = fail(w, errno);
	} else if (S_ISLNK(st.st_mode)) {
		err = follow_link(w, fd, name, &st);
	} else if (is_last) {
		err = S_ISREG(st.st_mode) ? 1 : no_file(w);
	} else if (S_ISDIR(st.st_mode)) {
		enter(w, fd);
		return 0;
	} else {
		err = fail(w, ENOTDIR);
	}
	close(fd);
	return err;
}

/*
 * Find PATH. -EINVAL if PATH exists but is not a regular file, or if it contains a symbolic link of
 * another user.
 */
static int find_place(struct ocp_ctx *ctx, const char *path, struct file_place *place)
{
	struct path_walk walk = { .ctx = ctx, .path = path, .fd = -1 };
	int err = set_rest(&walk, path);

	if (!err && walk.fd < 0) {
		enter(&walk, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
		err = walk.fd < 0 ? fail(&walk, errno) : 0;
	}
	while (!err) {
		if (next_name(&walk, place->name, &err))
			err = walk_to(&walk, place->name);
		else if (!err)
			err = no_file(&walk);
	}
	place->folder_fd = walk.fd;
	if (err == 1)
		return 0;
	if (walk.fd >= 0)
		close(walk.fd);
	return err;
}

/* ---- writing -------------------------------------------------------------------------------- */

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
 * called NEW. Set *IS_NAMED to whether the file has the name.
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
		err = find_place(ctx, given, &place);
	if (err)
		return err;
	err = body->is_short ? ctx_no_memory(ctx) : write_at(ctx, given, &place, body);
	close(place.folder_fd);
	return err;
}

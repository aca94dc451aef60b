// SPDX-License-Identifier: MIT
#include "serve/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINKS = 40 };

/* The state of walking a path. */
struct path_walk {
	struct ocp_ctx *ctx;
	const char *path;    /* the whole path, for errors */
	int fd;		     /* the directory reached so far; -1: before the start */
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
 * empty, or if the name is too long (*ERR).
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

int place_find(struct ocp_ctx *ctx, const char *path, struct file_place *place)
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

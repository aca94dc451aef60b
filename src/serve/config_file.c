// SPDX-License-Identifier: MIT
#include "serve/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/interrupted.h"

enum { MAX_FILE_BYTES = 1 << 20 };

/*
 * The file is read without blocking for long. While the process reads, it handles no signals and no
 * clients, so it must not wait for data that may never arrive. Regular files do not block. FIFOs
 * and terminals are refused: the open() of a FIFO and the read() of a terminal can block forever. A
 * nameless pipe is accepted only at the start, while wake_fd is polled for signals.
 */

/*
 * Return true if FD is a nameless pipe. A nameless pipe is on pipefs; a FIFO is on the file system
 * that contains its name.
 */
static bool is_nameless_pipe(int fd, const struct stat *st)
{
	struct statfs fs;

	return S_ISFIFO(st->st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

static int check_config_kind(struct ocp_ctx *ctx, const char *file, int fd, int wake_fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return ctx_error(ctx, -errno, "%s: %s", file, strerror(errno));
	if (S_ISREG(st.st_mode))
		return 0;
	if (S_ISDIR(st.st_mode))
		return ctx_error(ctx, -EINVAL, "%s: %s", file, strerror(EISDIR));
	if (!is_nameless_pipe(fd, &st))
		return ctx_error(ctx, -EINVAL, "%s: not a regular file", file);
	if (wake_fd < 0)
		return ctx_error(ctx, -EINVAL, "%s: a pipe cannot be read again", file);
	return 0;
}

/* Wait until FD is readable. Return -ECANCELED if WAKE_FD becomes readable. */
static int wait_for_pipe(struct ocp_ctx *ctx, const char *file, int fd, int wake_fd,
			 struct interruptions *interruptions)
{
	struct pollfd both[] = { { .fd = fd, .events = POLLIN },
				 { .fd = wake_fd, .events = POLLIN } };

	if (poll(both, 2, -1) < 0 && !is_interrupted(interruptions))
		return ctx_error(ctx, -errno, "%s: %s", file, strerror(errno));
	if (both[1].revents)
		return ctx_error(ctx, -ECANCELED, "%s: interrupted before the end of the pipe",
				 file);
	return 0;
}

static int read_config_text(struct ocp_ctx *ctx, const char *file, int fd, int wake_fd, char *text,
			    size_t *n)
{
	struct interruptions interruptions = { 0 };
	ssize_t got = 1;
	int err = 0;

	while (!err && got != 0 && *n < MAX_FILE_BYTES) {
		got = read(fd, text + *n, MAX_FILE_BYTES - *n);
		if (got > 0)
			*n += (size_t)got;
		else if (got < 0 && errno == EAGAIN && wake_fd >= 0)
			err = wait_for_pipe(ctx, file, fd, wake_fd, &interruptions);
		else if (got < 0)
			err = ctx_error(ctx, -errno, "%s: %s", file, strerror(errno));
	}
	if (!err && *n == MAX_FILE_BYTES)
		err = ctx_error(ctx, -EFBIG, "%s: 1 MiB or more", file);
	return err;
}

int config_file_read(struct ocp_ctx *ctx, const char *file, int wake_fd, char **text, size_t *n)
{
	const int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int err;

	*n = 0;
	*text = NULL;
	if (fd < 0)
		return ctx_error(ctx, -errno, "%s: %s", file, strerror(errno));
	err = check_config_kind(ctx, file, fd, wake_fd);
	if (!err) {
		*text = malloc(MAX_FILE_BYTES + 1);
		err = *text ? read_config_text(ctx, file, fd, wake_fd, *text, n)
			    : ctx_no_memory(ctx);
	}
	close(fd);
	if (err)
		free(*text);
	else
		(*text)[*n] = '\0';
	return err;
}

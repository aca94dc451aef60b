// SPDX-License-Identifier: MIT
#include "base/foreign_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/*
 * Fill *ST without waiting for the server of a FUSE or network file system: fstat(2) could block
 * forever if that server does not reply.
 */
static int stat_without_waiting(int fd, struct stat *st)
{
	struct statx now;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &now) != 0)
		return -errno;
	*st = (struct stat){
		.st_dev = makedev(now.stx_dev_major, now.stx_dev_minor),
		.st_ino = now.stx_ino,
		.st_mode = now.stx_mode,
		.st_nlink = now.stx_nlink,
		.st_uid = now.stx_uid,
		.st_size = (off_t)now.stx_size,
	};
	return 0;
}

int foreign_file_find(const char *path, struct stat *st)
{
	const int found = open(path, O_PATH | O_CLOEXEC);
	int err;

	if (found < 0)
		return -errno;
	err = stat_without_waiting(found, st);
	if (err)
		close(found);
	return err ? err : found;
}

/* O_NONBLOCK: without it, open(2) could wait for a lease that the file's owner has taken. */
int foreign_file_open(int found, int access)
{
	char path[32];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	fd = open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		err = -errno;
	close(found);
	return err ? err : fd;
}

int foreign_file_read(const char *path, ino_t inode)
{
	struct stat st = { 0 };
	const int found = foreign_file_find(path, &st);
	int err = 0;

	if (found < 0)
		return found;
	if (!S_ISREG(st.st_mode))
		err = -ENOEXEC;
	else if (inode && st.st_ino != inode)
		err = -ENOENT;
	if (!err)
		return foreign_file_open(found, O_RDONLY);
	close(found);
	return err;
}

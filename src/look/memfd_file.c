// SPDX-License-Identifier: MIT
#include "look/memfd_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/foreign_file.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U /* linux/memfd.h: Linux 6.3 */
#endif

/*
 * Get the device number of memfds: all memfds without huge pages are in one file system inside the
 * kernel. This file system has no path, so make a memfd to find its device number.
 */
static int file_system_of_memfds(dev_t *dev)
{
	struct stat st = { 0 };
	int err = 0, fd = memfd_create("ocaml-probes-compare", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("ocaml-probes-compare", MFD_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		err = -errno;
	*dev = st.st_dev;
	if (fd >= 0)
		close(fd);
	return err;
}

/*
 * Return 0 if the file with the status ST is a memfd. If ACCESS includes writing, the mode of the
 * memfd must also let other users write to it. Otherwise return -EINVAL. Without this check of the
 * mode, a process that has only a read-only descriptor of a memfd could make this tool write to the
 * memfd. If the mode lets other users write, the process could itself open the memfd for writing.
 */
static int check_memfd(const struct stat *st, int access)
{
	dev_t dev;
	int err = file_system_of_memfds(&dev);

	if (err)
		return err;
	return S_ISREG(st->st_mode) && st->st_dev == dev && st->st_nlink == 0 &&
			       (access == O_RDONLY || st->st_mode & S_IWOTH)
		       ? 0
		       : -EINVAL;
}

int memfd_file_open(const char *path, int access, struct stat *st)
{
	const int found = foreign_file_find(path, st);
	int err;

	if (found < 0)
		return found;
	err = check_memfd(st, access);
	if (!err)
		return foreign_file_open(found, access);
	close(found);
	return err;
}

bool memfd_file_is_sealed(int fd, int seals)
{
	const int has = fcntl(fd, F_GET_SEALS);

	return has >= 0 && (has & seals) == seals;
}

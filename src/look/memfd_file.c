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
 * Get the device of memfds: all memfds without huge pages are in one file system of the kernel,
 * whose files have no path.
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
 * Return 0 if the file is a memfd and, unless ACCESS is O_RDONLY, its mode lets other users write
 * to it; else -EINVAL. The mode matters because any process that has a descriptor of the memfd,
 * even a read-only one, could then open it for writing. So this tool writes only to files to which
 * such a process could write itself.
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

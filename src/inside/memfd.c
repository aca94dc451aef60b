// SPDX-License-Identifier: MIT
#include "inside/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "tracee/memfd_file.h"
#include "tracee/proc_file.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* linux/memfd.h: Linux 6.3 */
#endif

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Create the memfd. Its name has to be in the memory of the process. */
static int create(struct stop *stop, const char *name, int *theirs)
{
	static const unsigned int flags[] = { MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC,
					      MFD_CLOEXEC | MFD_ALLOW_SEALING };
	uint64_t addr, result = 0;
	int err = stop_begin_calls(stop);

	if (err)
		return err;
	addr = remote_scratch(stop->remote);
	err = patcher_write_unused(stop->patcher, addr, name, strlen(name) + 1);
	if (err)
		return ctx_error(stop->ctx, err, "pid %d: cannot write to a stack: %s",
				 (int)stop->pid, strerror(-err));
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		err = stop_call(stop, "memfd_create", SYS_memfd_create,
				(uint64_t[6]){ addr, flags[i] }, &result);
		if (err != -EINVAL)
			break;
	}
	*theirs = (int)result;
	return err;
}

static int open_new(const struct stop *stop, struct memfd *memfd)
{
	char name[32], path[PROC_PATH_BYTES];
	struct stat st;

	snprintf(name, sizeof(name), "fd/%d", memfd->theirs);
	proc_path(path, stop->pid, name);
	memfd->ours = memfd_file_open(path, O_RDWR, &st);
	if (memfd->ours < 0)
		return memfd->ours;
	memfd->dev = st.st_dev;
	memfd->ino = st.st_ino;
	return st.st_size == 0 && fcntl(memfd->ours, F_GET_SEALS) == 0 ? 0 : -EINVAL;
}

/*
 * Set size and seals. Another process that has the file can resize and seal it until our last seal.
 * Our first seal comes before the size: a file that meanwhile got another seal or another size
 * either refuses one of our calls, or fails the comparison at the end.
 */
static int size_and_seal(const struct memfd *memfd, size_t bytes)
{
	struct stat st;

	if (fcntl(memfd->ours, F_ADD_SEALS, F_SEAL_SHRINK) != 0 ||
	    ftruncate(memfd->ours, (off_t)bytes) != 0 ||
	    fcntl(memfd->ours, F_ADD_SEALS, SEALS) != 0 || fstat(memfd->ours, &st) != 0)
		return errno == EPERM ? -EINVAL : -errno;
	return st.st_size == (off_t)bytes && fcntl(memfd->ours, F_GET_SEALS) == SEALS ? 0 : -EINVAL;
}

static int memfd_error(const struct stop *stop, const struct memfd *memfd, int err)
{
	if (err == -EINVAL)
		return ctx_error(
			stop->ctx, -EBUSY,
			"pid %d: another process has changed its descriptor %d, or the new "
			"memory there",
			(int)stop->pid, memfd->theirs);
	return ctx_error(stop->ctx, err, "pid %d: its new memory: %s", (int)stop->pid,
			 strerror(-err));
}

int memfd_make(struct stop *stop, const char *name, size_t bytes, struct memfd *memfd)
{
	int err;

	*memfd = (struct memfd){ .ours = -1 };
	err = create(stop, name, &memfd->theirs);
	if (err)
		return err;
	err = open_new(stop, memfd);
	if (!err)
		err = size_and_seal(memfd, bytes);
	if (!err)
		return 0;
	memfd_close(stop, memfd);
	return memfd_error(stop, memfd, err);
}

int memfd_close(struct stop *stop, struct memfd *memfd)
{
	if (memfd->ours >= 0)
		close(memfd->ours);
	memfd->ours = -1;
	return stop_call(stop, "close", SYS_close, (uint64_t[6]){ (uint64_t)memfd->theirs }, NULL);
}

bool memfd_is_at(const struct maps *maps, uint64_t addr, dev_t dev, ino_t ino)
{
	const struct mapping *m = maps_find(maps, addr);

	return m && m->inode == ino && makedev(m->dev_major, m->dev_minor) == dev;
}

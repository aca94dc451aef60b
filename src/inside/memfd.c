// SPDX-License-Identifier: MIT
#include "inside/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include "tracee/proc_file.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* linux/memfd.h: Linux 6.3 */
#endif

/* The name has to be in the memory of the process. */
int memfd_make(struct stop *stop, const char *name, int *fd)
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
	*fd = (int)result;
	return err;
}

int memfd_open(const struct stop *stop, int fd)
{
	char name[32], path[PROC_PATH_BYTES];
	int ours;

	snprintf(name, sizeof(name), "fd/%d", fd);
	proc_path(path, stop->pid, name);
	ours = open(path, O_RDWR | O_CLOEXEC);
	if (ours < 0)
		return ctx_error(stop->ctx, -errno, "%s: %s", path, strerror(errno));
	return ours;
}

// SPDX-License-Identifier: MIT
/*
 * process_vm_readv(2) reads up to IOV_MAX pieces a call, but goes by pid: after an exec it reads
 * the new program. /proc/PID/mem is bound to the address space it was opened on and reads nothing
 * once that is gone. So the pieces are read by the first, and the second is asked afterwards
 * whether they came from where we think.
 */
#include "process/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "process/proc_file.h"

struct memory {
	struct ocp_ctx *ctx;
	pid_t pid;
	int fd;
};

int memory_open(struct ocp_ctx *ctx, pid_t pid, struct memory **out)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	char path[64];

	*out = NULL;
	if (!memory)
		return ctx_no_memory(ctx);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	*memory = (struct memory){ .ctx = ctx, .pid = pid };
	memory->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (memory->fd < 0) {
		int err = proc_why_no_access(ctx, pid, errno);

		free(memory);
		return err;
	}
	*out = memory;
	return 0;
}

void memory_close(struct memory *memory)
{
	if (!memory)
		return;
	close(memory->fd);
	free(memory);
}

bool memory_is_alive(const struct memory *memory)
{
	char byte;

	/*
	 * mem_rw() (fs/proc/base.c) returns 0 when the address space has no users left, -EIO for an
	 * address that is not mapped: address 0 tells the two apart.
	 */
	return pread(memory->fd, &byte, 1, 0) != 0;
}

static int gone(const struct memory *memory)
{
	return ctx_error(memory->ctx, -ESRCH, "pid %d: ended, or runs another program now",
			 (int)memory->pid);
}

static int read_one(const struct memory *memory, const struct memory_piece *piece, char *buf)
{
	ssize_t n = pread(memory->fd, buf, piece->bytes, (off_t)piece->addr);

	if (n == (ssize_t)piece->bytes)
		return 0;
	if (n == 0)
		return gone(memory);
	return ctx_error(memory->ctx, -EFAULT, "pid %d: cannot read %zu bytes at 0x%" PRIx64,
			 (int)memory->pid, piece->bytes, piece->addr);
}

int memory_read(const struct memory *memory, const struct memory_piece *pieces, size_t n, void *buf)
{
	struct iovec remote[IOV_MAX];
	char *to = buf;
	size_t next = 0;

	while (next < n) {
		size_t count = 0, bytes = 0;
		struct iovec local = { .iov_base = to };
		ssize_t got;

		for (; count < IOV_MAX && next + count < n; count++) {
			remote[count].iov_base = (void *)(uintptr_t)pieces[next + count].addr;
			remote[count].iov_len = pieces[next + count].bytes;
			bytes += pieces[next + count].bytes;
		}
		local.iov_len = bytes;
		got = process_vm_readv(memory->pid, &local, 1, remote, count, 0);
		if (got == (ssize_t)bytes) {
			to += bytes;
			next += count;
			continue;
		}
		/* One of them is not readable that way: go on one by one, which names it. */
		for (size_t i = 0; i < count; i++) {
			int err = read_one(memory, &pieces[next + i], to);

			if (err)
				return err;
			to += pieces[next + i].bytes;
		}
		next += count;
	}
	return memory_is_alive(memory) ? 0 : gone(memory);
}

// SPDX-License-Identifier: MIT
/*
 * Writes of one byte of text or two bytes of a semaphore, through /proc/PID/mem.
 *
 * Never words. The kernel writes int3 over a site's nop and the original byte back whenever
 * somebody's uprobe comes or goes, in running and in stopped processes alike. A wider write, or any
 * read-modify-write that covers a nop (the next site may start 6 bytes on), would erase or
 * resurrect such a byte: lost hits at best, a SIGTRAP that kills the target at worst. In the same
 * way the two bytes in front of an OCaml semaphore belong to the kernel's reference counter.
 *
 * /proc/PID/mem writes to read-only private text as ptrace's POKE does (FOLL_FORCE), into a private
 * copy of the page; the file is never changed.
 */
#include "process/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process/proc_file.h"

static int write_value(int fd, uint64_t addr, uint16_t value, uint8_t bytes)
{
	ssize_t n;

	do
		n = pwrite(fd, &value, bytes, (off_t)addr);
	while (n < 0 && errno == EINTR);
	if (n == bytes)
		return 0;
	/* 0: the address space is gone. A torn semaphore cannot be: it is 2-aligned. */
	return n < 0 ? -errno : -ESRCH;
}

/* Undo writes [0, n), last first. Returns how many could not be undone. */
static size_t undo(struct ocp_ctx *ctx, int fd, const struct patch_write *writes, size_t n)
{
	size_t left = 0;

	while (n-- > 0) {
		if (write_value(fd, writes[n].addr, writes[n].old, writes[n].bytes) == 0)
			continue;
		left++;
		ctx_log(ctx, OCP_LOG_WARN, "cannot undo the write at 0x%" PRIx64, writes[n].addr);
	}
	return left;
}

int patch_apply(struct ocp_ctx *ctx, pid_t pid, const struct patch_write *writes, size_t n)
{
	char path[64];
	int fd, err = 0;
	size_t done;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return proc_why_no_access(ctx, pid, errno);
	for (done = 0; done < n; done++) {
		err = write_value(fd, writes[done].addr, writes[done].new, writes[done].bytes);
		if (err)
			break;
	}
	if (err == -ESRCH) {
		ctx_error(ctx, err, "pid %d: ended while its probes were switched", (int)pid);
	} else if (err) {
		size_t left = undo(ctx, fd, writes, done);

		if (left)
			ctx_error(ctx, err,
				  "pid %d: cannot write at 0x%" PRIx64 ": %s; %zu of %zu earlier "
				  "writes could not be undone",
				  (int)pid, writes[done].addr, strerror(-err), left, done);
		else
			ctx_error(ctx, err,
				  "pid %d: cannot write at 0x%" PRIx64
				  ": %s; all %zu earlier writes were undone",
				  (int)pid, writes[done].addr, strerror(-err), done);
	}
	close(fd);
	return err;
}

// SPDX-License-Identifier: MIT
/*
 * The lookup of the page is most of the kernel's work for a read. So the pieces are sorted by
 * address, and those on one page or on adjacent pages are read together (100 000 sites: 1000
 * pages).
 *
 * process_vm_readv(2) reads up to IOV_MAX pieces per call, but it takes a pid: after an exec it
 * reads the new program. /proc/PID/mem refers to the address space at the time of open(2) and reads
 * nothing once that is gone. So process_vm_readv(2) reads the pieces, and a read of /proc/PID/mem
 * afterwards tells whether they came from the right address space.
 */
#include "tracee/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tracee/proc_file.h"

struct memory {
	struct ocp_ctx *ctx;
	pid_t pid;
	int fd;
};

int memory_open(struct ocp_ctx *ctx, pid_t pid, struct memory **out)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	char path[PROC_PATH_BYTES];

	*out = NULL;
	if (!memory)
		return ctx_no_memory(ctx);
	proc_path(path, pid, "mem");
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

pid_t memory_pid(const struct memory *memory)
{
	return memory->pid;
}

bool memory_is_alive(const struct memory *memory)
{
	char byte;

	/*
	 * mem_rw() (fs/proc/base.c) returns 0 when the address space has no users left, and -EIO
	 * for an address that is not mapped, such as this one.
	 */
	return pread(memory->fd, &byte, 1, 0) != 0;
}

static int gone(const struct memory *memory)
{
	return ctx_error(memory->ctx, -ESRCH, "pid %d: has ended, or runs another program now",
			 (int)memory->pid);
}

static int cannot_read(const struct memory *memory, const struct memory_piece *piece)
{
	return ctx_error(memory->ctx, -EFAULT, "pid %d: cannot read %u bytes at 0x%" PRIx64,
			 (int)memory->pid, piece->bytes, piece->addr);
}

static int read_one(const struct memory *memory, const struct memory_piece *piece, char *buf)
{
	ssize_t n = pread(memory->fd, buf, piece->bytes, (off_t)piece->addr);

	if (n == (ssize_t)piece->bytes)
		return 0;
	if (n == 0)
		return gone(memory);
	return cannot_read(memory, piece);
}

/*
 * Sort PIECES by address, with a radix sort that skips digits in which all are equal. Returns the
 * array that has the result, one of the two.
 */
static struct memory_piece *sort_pieces(struct memory_piece *pieces, struct memory_piece *spare,
					size_t n)
{
	enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };
	uint64_t differ = 0;

	for (size_t i = 1; i < n; i++)
		differ |= pieces[i].addr ^ pieces[0].addr;
	for (unsigned int shift = 0; shift < 64; shift += DIGIT_BITS) {
		size_t place[DIGITS] = { 0 }, next = 0;
		struct memory_piece *sorted = spare;

		if (!(differ >> shift & (DIGITS - 1)))
			continue;
		for (size_t i = 0; i < n; i++)
			place[pieces[i].addr >> shift & (DIGITS - 1)]++;
		for (size_t i = 0; i < DIGITS; i++) {
			size_t count = place[i];

			place[i] = next;
			next += count;
		}
		for (size_t i = 0; i < n; i++)
			sorted[place[pieces[i].addr >> shift & (DIGITS - 1)]++] = pieces[i];
		spare = pieces;
		pieces = sorted;
	}
	return pieces;
}

/*
 * The runs of memory that one call reads. A run has one or more pieces and the bytes between them,
 * but no page without a piece: if the pieces are readable, so is the run.
 */
struct batch {
	struct iovec runs[IOV_MAX];
	size_t n_runs, bytes;
	char *buf;
};

enum { BATCH_BYTES = 64 * 1024 };

/* Add a piece; the addresses must ascend. Returns false if the batch has no room for it. */
static bool batch_add(struct batch *batch, const struct memory_piece *piece, uint64_t page)
{
	struct iovec *run = batch->n_runs ? &batch->runs[batch->n_runs - 1] : NULL;
	uint64_t end = piece->addr + piece->bytes;

	if (run) {
		uint64_t run_start = (uint64_t)(uintptr_t)run->iov_base;
		uint64_t run_end = run_start + run->iov_len;

		if (end <= run_end)
			return true;
		if (piece->addr / page <= (run_end - 1) / page + 1) {
			if (batch->bytes + (end - run_end) > BATCH_BYTES)
				return false;
			batch->bytes += end - run_end;
			run->iov_len = end - run_start;
			return true;
		}
	}
	if (batch->n_runs == IOV_MAX || batch->bytes + piece->bytes > BATCH_BYTES)
		return false;
	batch->runs[batch->n_runs++] =
		(struct iovec){ (void *)(uintptr_t)piece->addr, piece->bytes };
	batch->bytes += piece->bytes;
	return true;
}

/* Read the batch, which was made from PIECES, and copy each piece to its place. */
static int batch_read(const struct memory *memory, const struct batch *batch,
		      const struct memory_piece *pieces, size_t n, char *buf)
{
	struct iovec local = { .iov_base = batch->buf, .iov_len = batch->bytes };
	const struct iovec *run = batch->runs;
	const char *from = batch->buf;
	ssize_t got = process_vm_readv(memory->pid, &local, 1, run, batch->n_runs, 0);

	for (size_t i = 0; i < n; i++) {
		uint64_t run_start = (uint64_t)(uintptr_t)run->iov_base;
		int err;

		if (got == (ssize_t)batch->bytes) {
			while (pieces[i].addr - run_start >= run->iov_len) {
				from += run++->iov_len;
				run_start = (uint64_t)(uintptr_t)run->iov_base;
			}
			memcpy(buf + pieces[i].to, from + (pieces[i].addr - run_start),
			       pieces[i].bytes);
			continue;
		}
		/* One piece is not readable: read them one by one, to name it. */
		err = read_one(memory, &pieces[i], buf + pieces[i].to);
		if (err)
			return err;
	}
	return 0;
}

static int read_sorted(const struct memory *memory, struct batch *batch,
		       const struct memory_piece *pieces, size_t n, char *buf)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	size_t next = 0;
	int err = 0;

	while (!err && next < n) {
		size_t first = next;

		batch->n_runs = batch->bytes = 0;
		while (next < n && batch_add(batch, &pieces[next], page))
			next++;
		err = batch_read(memory, batch, pieces + first, next - first, buf);
	}
	return err;
}

int memory_read(const struct memory *memory, struct memory_piece *pieces, size_t n, void *buf)
{
	struct memory_piece *spare = calloc(n + 1, sizeof(*spare));
	struct batch *batch = calloc(1, sizeof(*batch) + BATCH_BYTES);
	uint32_t bytes = 0;
	int err;

	if (!spare || !batch) {
		err = ctx_no_memory(memory->ctx);
		goto out;
	}
	batch->buf = (char *)(batch + 1);
	for (size_t i = 0; i < n; i++) {
		/* A hostile file may have any address; batch_add needs an end above the start. */
		if (pieces[i].addr + pieces[i].bytes < pieces[i].addr) {
			err = cannot_read(memory, &pieces[i]);
			goto out;
		}
		pieces[i].to = bytes;
		bytes += pieces[i].bytes;
	}
	err = read_sorted(memory, batch, sort_pieces(pieces, spare, n), n, buf);
	if (!err && !memory_is_alive(memory))
		err = gone(memory);
out:
	free(batch);
	free(spare);
	return err;
}

int memory_check_alive(const struct memory *memory)
{
	return memory_is_alive(memory) ? 0 : gone(memory);
}

int memory_read_in_order(const struct memory *memory, const struct iovec *remote, size_t n,
			 void *buf, size_t bytes)
{
	const struct iovec local = { .iov_base = buf, .iov_len = bytes };
	const ssize_t got = process_vm_readv(memory->pid, &local, 1, remote, n, 0);
	const int err = got < 0 ? errno : EFAULT;

	if (got == (ssize_t)bytes)
		return 0;
	/* While a process ends, its memory can be held by others (uprobes) after it has given it up. */
	if (err == ESRCH || !memory_is_alive(memory))
		return gone(memory);
	if (err == EPERM)
		return proc_why_no_access(memory->ctx, memory->pid, err);
	return ctx_error(memory->ctx, -EFAULT, "pid %d: cannot read %zu bytes from 0x%" PRIx64,
			 (int)memory->pid, bytes, (uint64_t)(uintptr_t)remote->iov_base);
}

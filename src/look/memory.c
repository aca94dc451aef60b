// SPDX-License-Identifier: MIT
/*
 * Most of the kernel's work for a read is to look up the page. So the pieces are sorted by address,
 * and pieces on the same page or on adjacent pages are read together (100 000 sites: 1000 pages).
 *
 * process_vm_readv(2) reads up to IOV_MAX pieces per call, but the call takes a pid: after an exec
 * it reads the memory of the new program. /proc/PID/mem refers to the address space that the
 * process had at open(2), and a read returns nothing once that address space is gone. So
 * process_vm_readv(2) reads the pieces, and a read of /proc/PID/mem afterwards shows whether they
 * came from the right address space.
 */
#include "look/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "look/proc_file.h"

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
 * Sort PIECES by address, with a radix sort that skips digits which are equal in all pieces.
 * Returns the sorted array, which is either PIECES or SPARE.
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
 * A batch: the runs of memory that one call reads. A run has one or more pieces and the bytes
 * between them, but no page without a piece. So if all pieces are readable, the run is readable.
 */
struct memory_batch {
	size_t first_run, n_runs, first_piece, n_pieces, bytes;
};

enum { BATCH_BYTES = 64 * 1024 };

struct memory_plan {
	struct memory_piece *pieces; /* sorted by address: the caller's array or `spare` */
	struct memory_piece *owned, *spare;
	struct iovec *runs;
	struct memory_batch *batches;
	size_t n_runs, n_batches;
	char *buf; /* BATCH_BYTES bytes that receive the runs of one batch */
};

/*
 * Add PIECE to BATCH. Pieces must be added in ascending order of their addresses. Return false if
 * BATCH has no room for PIECE.
 */
static bool batch_add(struct memory_plan *plan, struct memory_batch *batch,
		      const struct memory_piece *piece, int page_bits)
{
	uint64_t end = piece->addr + piece->bytes;

	if (batch->n_runs) {
		struct iovec *run = &plan->runs[plan->n_runs - 1];
		uint64_t run_start = (uint64_t)(uintptr_t)run->iov_base;
		uint64_t run_end = run_start + run->iov_len;

		if (end <= run_end)
			return true;
		if (piece->addr >> page_bits <= ((run_end - 1) >> page_bits) + 1) {
			if (batch->bytes + (end - run_end) > BATCH_BYTES)
				return false;
			batch->bytes += end - run_end;
			run->iov_len = end - run_start;
			return true;
		}
	}
	if (batch->n_runs == IOV_MAX || batch->bytes + piece->bytes > BATCH_BYTES)
		return false;
	plan->runs[plan->n_runs++] = (struct iovec){ (void *)(uintptr_t)piece->addr, piece->bytes };
	batch->n_runs++;
	batch->bytes += piece->bytes;
	return true;
}

static void make_batches(struct memory_plan *plan, size_t n)
{
	const int page_bits = __builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
	size_t next = 0;

	while (next < n) {
		struct memory_batch *batch = &plan->batches[plan->n_batches++];

		*batch = (struct memory_batch){ .first_run = plan->n_runs, .first_piece = next };
		while (next < n && batch_add(plan, batch, &plan->pieces[next], page_bits))
			next++;
		batch->n_pieces = next - batch->first_piece;
	}
}

/*
 * Copy one piece. For the usual sizes, 6 bytes (a site) and 2 bytes (a semaphore), the size is a
 * constant, so that the compiler needs no call of memcpy(3).
 */
static void copy_piece(char *to, const char *from, size_t bytes)
{
	if (bytes == 6)
		memcpy(to, from, 6);
	else if (bytes == 2)
		memcpy(to, from, 2);
	else
		memcpy(to, from, bytes);
}

/* Read the runs of BATCH, and copy each piece to its place in BUF. */
static int batch_read(const struct memory *memory, const struct memory_plan *plan,
		      const struct memory_batch *batch, char *buf)
{
	const struct memory_piece *pieces = &plan->pieces[batch->first_piece];
	const struct iovec *run = &plan->runs[batch->first_run];
	const struct iovec local = { .iov_base = plan->buf, .iov_len = batch->bytes };
	const char *from = plan->buf;
	ssize_t got = process_vm_readv(memory->pid, &local, 1, run, batch->n_runs, 0);

	for (size_t i = 0; i < batch->n_pieces; i++) {
		uint64_t run_start = (uint64_t)(uintptr_t)run->iov_base;
		int err;

		if (got == (ssize_t)batch->bytes) {
			while (pieces[i].addr - run_start >= run->iov_len) {
				from += run++->iov_len;
				run_start = (uint64_t)(uintptr_t)run->iov_base;
			}
			copy_piece(buf + pieces[i].to, from + (pieces[i].addr - run_start),
				   pieces[i].bytes);
			continue;
		}
		/*
		 * At least one piece is not readable: read the pieces one by one, to find out
		 * which.
		 */
		err = read_one(memory, &pieces[i], buf + pieces[i].to);
		if (err)
			return err;
	}
	return 0;
}

int memory_plan_read(const struct memory *memory, struct memory_plan *plan, void *buf)
{
	int err = 0;

	for (size_t i = 0; !err && i < plan->n_batches; i++)
		err = batch_read(memory, plan, &plan->batches[i], buf);
	if (!err && !memory_is_alive(memory))
		err = gone(memory);
	return err;
}

void memory_plan_free(struct memory_plan *plan)
{
	if (!plan)
		return;
	free(plan->owned);
	free(plan->spare);
	free(plan->runs);
	free(plan->batches);
	free(plan->buf);
	free(plan);
}

/* Allocate a plan for N pieces. Returns NULL if there is no memory. */
static struct memory_plan *plan_alloc(size_t n)
{
	struct memory_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->spare = malloc((n + 1) * sizeof(*plan->spare));
	plan->runs = calloc(n + 1, sizeof(*plan->runs));
	plan->batches = malloc((n + 1) * sizeof(*plan->batches));
	plan->buf = malloc(BATCH_BYTES);
	if (plan->spare && plan->runs && plan->batches && plan->buf)
		return plan;
	memory_plan_free(plan);
	return NULL;
}

/*
 * Sort PIECES, and divide them into batches. The sorted pieces are in PIECES or in the spare array,
 * so PIECES must stay valid as long as PLAN.
 */
static int plan_fill(const struct memory *memory, struct memory_plan *plan,
		     struct memory_piece *pieces, size_t n)
{
	/*
	 * Addresses can come from a hostile file, so a piece may wrap around; batch_add() requires
	 * that none does.
	 */
	for (size_t i = 0; i < n; i++)
		if (pieces[i].addr + pieces[i].bytes < pieces[i].addr)
			return cannot_read(memory, &pieces[i]);
	plan->pieces = sort_pieces(pieces, plan->spare, n);
	make_batches(plan, n);
	return 0;
}

int memory_plan_make(const struct memory *memory, struct memory_piece *pieces, size_t n,
		     struct memory_plan **out)
{
	struct memory_plan *plan = plan_alloc(n);
	int err;

	*out = NULL;
	if (!plan) {
		free(pieces);
		return ctx_no_memory(memory->ctx);
	}
	plan->owned = pieces;
	err = plan_fill(memory, plan, pieces, n);
	if (err)
		memory_plan_free(plan);
	else
		*out = plan;
	return err;
}

const struct memory_piece *memory_plan_pieces(const struct memory_plan *plan)
{
	return plan->pieces;
}

int memory_read(const struct memory *memory, struct memory_piece *pieces, size_t n, void *buf)
{
	struct memory_plan *plan = plan_alloc(n);
	uint32_t bytes = 0;
	int err;

	if (!plan)
		return ctx_no_memory(memory->ctx);
	for (size_t i = 0; i < n; i++) {
		pieces[i].to = bytes;
		bytes += pieces[i].bytes;
	}
	err = plan_fill(memory, plan, pieces, n);
	if (!err)
		err = memory_plan_read(memory, plan, buf);
	memory_plan_free(plan);
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
	/*
	 * While a process ends, uprobes can hold its memory after the process has released it: then
	 * memory_is_alive() can be true, but process_vm_readv(2) fails with ESRCH.
	 */
	if (err == ESRCH || !memory_is_alive(memory))
		return gone(memory);
	if (err == EPERM)
		return proc_why_no_access(memory->ctx, memory->pid, err);
	return ctx_error(memory->ctx, -EFAULT, "pid %d: cannot read %zu bytes from 0x%" PRIx64,
			 (int)memory->pid, bytes, (uint64_t)(uintptr_t)remote->iov_base);
}

bool memory_try_read(const struct memory *memory, uint64_t addr, void *buf, size_t bytes)
{
	const struct iovec local = { buf, bytes }, remote = { (void *)(uintptr_t)addr, bytes };

	return process_vm_readv(memory->pid, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

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
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process/proc_file.h"

enum {
	PARALLEL_MIN = 256, /* writes; a thread costs as much as some fifty of them */
};

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

/* Writes of one phase that one thread carries out in order; done[] stands for those that are done.
 */
struct share {
	int fd;
	const struct patch_write *writes;
	size_t n;
	uint8_t phase;
	size_t done; /* how far it came, in writes[] */
	int err;
};

static void *run_share(void *arg)
{
	struct share *share = arg;

	for (; share->done < share->n && !share->err; share->done++) {
		const struct patch_write *w = &share->writes[share->done];

		if (w->phase == share->phase)
			share->err = write_value(share->fd, w->addr, w->new, w->bytes);
		if (share->err)
			break;
	}
	return NULL;
}

static void undo_write(struct ocp_ctx *ctx, int fd, const struct patch_write *w, size_t *left)
{
	if (write_value(fd, w->addr, w->old, w->bytes) == 0)
		return;
	++*left;
	ctx_log(ctx, OCP_LOG_WARN, "cannot undo the write at 0x%" PRIx64, w->addr);
}

/* Undo what the shares of one phase have done, last first. */
static void undo_shares(struct ocp_ctx *ctx, const struct share *shares, size_t n_shares,
			size_t *left)
{
	while (n_shares-- > 0) {
		const struct share *share = &shares[n_shares];

		for (size_t i = share->done; i-- > 0;)
			if (share->writes[i].phase == share->phase)
				undo_write(ctx, share->fd, &share->writes[i], left);
	}
}

/*
 * Carry out one phase, in two shares at once if there is enough to do: the process is stopped, its
 * CPU is free, and the kernel's part of each write is small and takes no lock that both want for
 * long. Fills SHARES; what failed is in their err.
 */
static void run_phase(int fd, const struct patch_write *writes, size_t n, enum patch_phase phase,
		      struct share shares[2])
{
	size_t half = n >= PARALLEL_MIN ? n / 2 : n;
	pthread_t thread;
	bool parallel;

	shares[0] = (struct share){ .fd = fd, .writes = writes, .n = half, .phase = phase };
	shares[1] =
		(struct share){ .fd = fd, .writes = writes + half, .n = n - half, .phase = phase };
	parallel = shares[1].n && pthread_create(&thread, NULL, run_share, &shares[1]) == 0;
	run_share(&shares[0]);
	if (parallel)
		pthread_join(thread, NULL);
	else if (!shares[0].err)
		run_share(&shares[1]);
}

static bool has_phase(const struct patch_write *writes, size_t n, enum patch_phase phase)
{
	for (size_t i = 0; i < n; i++)
		if (writes[i].phase == phase)
			return true;
	return false;
}

static int report(struct ocp_ctx *ctx, pid_t pid, const struct share *failed, size_t left)
{
	if (failed->err == -ESRCH)
		return ctx_error(ctx, -ESRCH, "pid %d: ended while its probes were switched",
				 (int)pid);
	if (left)
		return ctx_error(ctx, failed->err,
				 "pid %d: cannot write at 0x%" PRIx64
				 ": %s; %zu earlier writes could not be undone",
				 (int)pid, failed->writes[failed->done].addr,
				 strerror(-failed->err), left);
	return ctx_error(ctx, failed->err,
			 "pid %d: cannot write at 0x%" PRIx64 ": %s; nothing was changed", (int)pid,
			 failed->writes[failed->done].addr, strerror(-failed->err));
}

static int apply_phases(struct ocp_ctx *ctx, pid_t pid, int fd, const struct patch_write *writes,
			size_t n)
{
	struct share shares[N_PATCH_PHASES][2] = { 0 };
	int phase = 0;

	for (; phase < N_PATCH_PHASES; phase++) {
		if (!has_phase(writes, n, phase))
			continue;
		run_phase(fd, writes, n, phase, shares[phase]);
		if (shares[phase][0].err || shares[phase][1].err)
			break;
	}
	if (phase < N_PATCH_PHASES) {
		const struct share *failed = &shares[phase][shares[phase][0].err ? 0 : 1];
		size_t left = 0;

		for (int p = phase; p >= 0 && failed->err != -ESRCH; p--)
			undo_shares(ctx, shares[p], 2, &left);
		return report(ctx, pid, failed, left);
	}
	return 0;
}

int patch_apply(struct ocp_ctx *ctx, pid_t pid, const struct patch_write *writes, size_t n)
{
	char path[64];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return proc_why_no_access(ctx, pid, errno);
	err = apply_phases(ctx, pid, fd, writes, n);
	close(fd);
	return err;
}

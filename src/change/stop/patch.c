// SPDX-License-Identifier: MIT
/*
 * Writes of one byte of text, of the five bytes of a jump, or of the two bytes of a semaphore.
 *
 * A write never covers a whole word. The kernel writes int3 over a site's nop when a uprobe is
 * added, and the original byte when it is removed, in running and in stopped processes. The next
 * site may start only 6 bytes further, so a wider write could cover its nop, and erase an int3 or
 * bring one back: hits would be lost, or a SIGTRAP would kill the tracee. Likewise, the two bytes
 * before an OCaml semaphore are the kernel's reference counter. A jump is written whole, because a
 * part of it would be another instruction; it is only written where no uprobe is.
 *
 * Text is written through /proc/PID/mem, one byte at a time. The kernel lets a tracer write to
 * read-only private text (FOLL_FORCE), into a private copy of the page; the file is never changed.
 *
 * The functions below name the tests of tests/unit/test_patch.c that cover them.
 */
#include "change/stop/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "look/proc_file.h"

enum {
	SEMAPHORE_BATCH = 512,
	/* number of writes; to wake a thread takes as long as about 50 writes */
	PARALLEL_MIN = 256,
};

static int write_bytes_at(int fd, uint64_t addr, const void *bytes, size_t n_bytes)
{
	struct interruptions interruptions = { 0 };
	ssize_t n;

	do
		n = pwrite(fd, bytes, n_bytes, (off_t)addr);
	while (n < 0 && is_interrupted(&interruptions));
	if (n == (ssize_t)n_bytes)
		return 0;
	/*
	 * If pwrite(2) returns 0, the address space is gone. pwrite(2) never writes a part of the
	 * bytes, because they are on one page: a semaphore is aligned to 2 bytes.
	 */
	return n < 0 ? -errno : -ESRCH;
}

static int write_value_at(int fd, uint64_t addr, uint16_t value, uint8_t bytes)
{
	return write_bytes_at(fd, addr, &value, bytes);
}

/* The writes of one phase that one thread carries out, in the order of writes[]. */
struct share {
	int fd;
	const struct patch_write *writes;
	size_t n;
	uint8_t phase;
	size_t done; /* the number of elements of writes[] that are done or skipped */
	int err;
};

struct patcher {
	struct ocp_ctx *ctx;
	pid_t pid;
	int fd; /* /proc/PID/mem */
	bool is_running;
	pthread_t worker;
	bool has_worker;
	struct share *share; /* the share for the worker; NULL tells the worker to end */
	sem_t work, done;
};

static void run_share(struct share *share)
{
	for (; share->done < share->n; share->done++) {
		const struct patch_write *w = &share->writes[share->done];

		if (w->phase == share->phase)
			share->err = write_value_at(share->fd, w->addr, w->new, w->bytes);
		if (share->err)
			return;
	}
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0 && errno == EINTR)
		;
}

static void *worker_main(void *arg)
{
	struct patcher *patcher = arg;

	for (;;) {
		wait_for(&patcher->work);
		if (!patcher->share)
			return NULL;
		run_share(patcher->share);
		sem_post(&patcher->done);
	}
}

static bool start_worker(struct patcher *patcher)
{
	sigset_t all, before;

	if (patcher->has_worker)
		return true;
	/* Block all signals, so that the caller's signal handlers never run in the worker. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	patcher->has_worker = pthread_create(&patcher->worker, NULL, worker_main, patcher) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return patcher->has_worker;
}

/*
 * Semaphores are in ordinary writable data, so process_vm_writev(2) can write many of them at once.
 * This call identifies the process by its pid. That is safe here, because a stopped process cannot
 * make an exec. If the call does not write a semaphore (in memory that was made read-only, or after
 * an error), it is written by pwrite(2). Test: semaphores_that_are_read_only.
 */
static void write_semaphores(struct patcher *patcher, struct share *share)
{
	struct iovec local[SEMAPHORE_BATCH], remote[SEMAPHORE_BATCH];
	/*
	 * For each element of local[], its index in writes[]. After the last one: the index at
	 * which to continue.
	 */
	size_t index[SEMAPHORE_BATCH + 1];

	while (!patcher->is_running && share->done < share->n) {
		size_t n = 0, i = share->done;
		ssize_t written;

		for (; i < share->n && n < SEMAPHORE_BATCH; i++) {
			const struct patch_write *w = &share->writes[i];

			if (w->phase != share->phase)
				continue;
			local[n] = (struct iovec){ (void *)&w->new, sizeof(w->new) };
			remote[n] = (struct iovec){ (void *)(uintptr_t)w->addr, sizeof(w->new) };
			index[n++] = i;
		}
		index[n] = i;
		written = n ? process_vm_writev(patcher->pid, local, n, remote, n, 0) : 0;
		share->done = index[written > 0 ? (size_t)written / sizeof(uint16_t) : 0];
		if (written != (ssize_t)(n * sizeof(uint16_t)))
			break;
	}
	run_share(share);
}

/*
 * If W is a write to a semaphore, undo it by process_vm_writev(2): write_semaphores() may have made
 * the write by this call, which can succeed where pwrite(2) fails. Return true on success.
 */
static bool undo_semaphore(const struct patcher *patcher, const struct patch_write *w)
{
	const struct iovec local = { (void *)&w->old, sizeof(w->old) };
	const struct iovec remote = { (void *)(uintptr_t)w->addr, sizeof(w->old) };

	return w->bytes == sizeof(w->old) && !patcher->is_running &&
	       process_vm_writev(patcher->pid, &local, 1, &remote, 1, 0) == sizeof(w->old);
}

static void undo_write(const struct patcher *patcher, const struct patch_write *w, size_t *left)
{
	if (write_value_at(patcher->fd, w->addr, w->old, w->bytes) == 0 ||
	    undo_semaphore(patcher, w))
		return;
	++*left;
	ctx_log(patcher->ctx, OCP_LOG_WARN, "cannot undo the write at 0x%" PRIx64, w->addr);
}

/* Undo the writes of one phase, in reverse order. Test: whatever_fails_nothing_is_written. */
static void undo_shares(const struct patcher *patcher, const struct share *shares, size_t n_shares,
			size_t *left)
{
	while (n_shares-- > 0) {
		const struct share *share = &shares[n_shares];

		for (size_t i = share->done; i-- > 0;)
			if (share->writes[i].phase == share->phase)
				undo_write(patcher, &share->writes[i], left);
	}
}

/*
 * Carry out one phase. If there are many writes to sites, two threads share them: the process is
 * stopped, so its CPU is free, and the two threads hardly ever wait for the same lock of the
 * kernel. Fill SHARES. If a thread fails, `err` of its share is set. Tests:
 * the_second_thread_writes_its_half, signals_while_the_second_thread_writes.
 */
static void run_phase(struct patcher *patcher, const struct patch_write *writes, size_t n,
		      enum patch_phase phase, struct share shares[2])
{
	bool parallel = phase != PATCH_SEMAPHORES && n >= PARALLEL_MIN && start_worker(patcher);
	size_t half = parallel ? n / 2 : n;

	for (int i = 0; i < 2; i++)
		shares[i] = (struct share){
			.fd = patcher->fd,
			.writes = i ? writes + half : writes,
			.n = i ? n - half : half,
			.phase = phase,
		};
	if (shares[1].n) {
		patcher->share = &shares[1];
		sem_post(&patcher->work);
	}
	if (phase == PATCH_SEMAPHORES)
		write_semaphores(patcher, &shares[0]);
	else
		run_share(&shares[0]);
	if (shares[1].n)
		wait_for(&patcher->done);
}

static bool has_phase(const struct patch_write *writes, size_t n, enum patch_phase phase)
{
	for (size_t i = 0; i < n; i++)
		if (writes[i].phase == phase)
			return true;
	return false;
}

static int report_failed_write(struct ocp_ctx *ctx, pid_t pid, const struct share *failed,
			       size_t left)
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

int patcher_apply(struct patcher *patcher, const struct patch_write *writes, size_t n)
{
	struct share shares[N_PATCH_PHASES][2] = { 0 };
	const struct share *failed;
	size_t left = 0;
	int phase;

	for (phase = 0; phase < N_PATCH_PHASES; phase++) {
		if (!has_phase(writes, n, phase))
			continue;
		run_phase(patcher, writes, n, phase, shares[phase]);
		if (shares[phase][0].err || shares[phase][1].err)
			break;
	}
	if (phase == N_PATCH_PHASES)
		return 0;
	failed = &shares[phase][shares[phase][0].err ? 0 : 1];
	for (; phase >= 0 && failed->err != -ESRCH; phase--)
		undo_shares(patcher, shares[phase], 2, &left);
	return report_failed_write(patcher->ctx, patcher->pid, failed, left);
}

int patcher_write_jumps(struct patcher *patcher, const struct patch_jump *jumps, size_t n)
{
	size_t done = 0, left = 0;
	int err = 0;

	while (!err && done < n) {
		err = write_bytes_at(patcher->fd, jumps[done].addr, jumps[done].new,
				     PATCH_JUMP_BYTES);
		done += !err;
	}
	if (!err)
		return 0;
	if (err == -ESRCH)
		return ctx_error(patcher->ctx, -ESRCH, "pid %d: ended while its code was changed",
				 (int)patcher->pid);
	for (size_t i = done; i-- > 0;)
		left += write_bytes_at(patcher->fd, jumps[i].addr, jumps[i].old,
				       PATCH_JUMP_BYTES) != 0;
	if (left)
		return ctx_error(patcher->ctx, err,
				 "pid %d: cannot write at 0x%" PRIx64
				 ": %s; %zu earlier writes could not be undone",
				 (int)patcher->pid, jumps[done].addr, strerror(-err), left);
	return ctx_error(patcher->ctx, err,
			 "pid %d: cannot write at 0x%" PRIx64 ": %s; nothing was changed",
			 (int)patcher->pid, jumps[done].addr, strerror(-err));
}

int patcher_open(struct ocp_ctx *ctx, pid_t pid, struct patcher **out)
{
	struct patcher *patcher = calloc(1, sizeof(*patcher));
	char path[PROC_PATH_BYTES];

	*out = NULL;
	if (!patcher)
		return ctx_no_memory(ctx);
	proc_path(path, pid, "mem");
	patcher->ctx = ctx;
	patcher->pid = pid;
	patcher->fd = open(path, O_RDWR | O_CLOEXEC);
	if (patcher->fd < 0) {
		int err = proc_why_no_access(ctx, pid, errno);

		free(patcher);
		return err;
	}
	sem_init(&patcher->work, 0, 0);
	sem_init(&patcher->done, 0, 0);
	*out = patcher;
	return 0;
}

void patcher_close(struct patcher *patcher)
{
	if (!patcher)
		return;
	if (patcher->has_worker) {
		patcher->share = NULL;
		sem_post(&patcher->work);
		pthread_join(patcher->worker, NULL);
	}
	sem_destroy(&patcher->work);
	sem_destroy(&patcher->done);
	close(patcher->fd);
	free(patcher);
}

int patcher_write_unused(struct patcher *patcher, uint64_t addr, const void *bytes, size_t n)
{
	struct interruptions interruptions = { 0 };
	size_t done = 0;

	while (done < n) {
		const ssize_t written = pwrite(patcher->fd, (const char *)bytes + done, n - done,
					       (off_t)(addr + done));

		if (written == 0)
			return -ESRCH;
		if (written > 0)
			done += (size_t)written;
		else if (!is_interrupted(&interruptions))
			return -errno;
	}
	return 0;
}

void patcher_set_running(struct patcher *patcher)
{
	patcher->is_running = true;
}

int patch_apply(struct ocp_ctx *ctx, pid_t pid, const struct patch_write *writes, size_t n)
{
	struct patcher *patcher;
	int err = patcher_open(ctx, pid, &patcher);

	if (patcher)
		err = patcher_apply(patcher, writes, n);
	patcher_close(patcher);
	return err;
}

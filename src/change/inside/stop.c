// SPDX-License-Identifier: MIT
#include "change/inside/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/user.h>
#include <unistd.h>
#include "change/inside/blocks.h"
#include "change/inside/own_stores.h"
#include "change/inside/threads.h"
#include "look/memfd_file.h"
#include "look/proc_file.h"

/* A routine takes microseconds, but its thread may have to wait for a CPU. */
enum { BUSY_TRIES = 70, FIRST_BUSY_US = 100, LAST_BUSY_US = 50000 };

int stop_open(struct ocp_ctx *ctx, pid_t pid, struct tracee *held, struct stop *stop)
{
	int err;

	*stop = (struct stop){ .ctx = ctx, .pid = pid, .tracee = held, .is_held = held };
	err = memory_open(ctx, pid, &stop->memory);
	if (!err)
		err = patcher_open(ctx, pid, &stop->patcher);
	if (!err && !held)
		err = tracee_open(ctx, pid, &stop->tracee);
	if (err)
		stop_close(stop);
	return err;
}

void stop_close(struct stop *stop)
{
	if (!stop->is_held)
		tracee_close(stop->tracee);
	patcher_close(stop->patcher);
	memory_close(stop->memory);
	remote_plan_free(stop->plan);
	*stop = (struct stop){ 0 };
}

/* ---- stops ---------------------------------------------------------------------------------- */

static bool is_of_stores(const struct mapping *m)
{
	return strcmp(m->path, STORES_PATH) == 0;
}

/*
 * Return true if a register of any thread holds an address in M, the image of a routine. A routine
 * keeps the address of its image in a register until it ends.
 */
static bool have_address(const struct stop *stop, const struct mapping *m)
{
	for (size_t i = 0; i < tracee_n_threads(stop->tracee); i++) {
		uint64_t regs[sizeof(struct user_regs_struct) / sizeof(uint64_t)];
		int signal;

		if (ptrace(PTRACE_GETREGS, tracee_tid(stop->tracee, i, &signal), NULL, regs) != 0)
			continue;
		for (size_t r = 0; r < sizeof(regs) / sizeof(regs[0]); r++)
			if (regs[r] - m->start < m->end - m->start)
				return true;
	}
	return false;
}

/*
 * Return true if a thread is about to make a system call for a killed tool (remote.h). If that call
 * is a munmap(2), it could unmap what this tool maps in this stop.
 */
static bool makes_a_call(const struct stop *stop)
{
	for (size_t i = 0; i < tracee_n_threads(stop->tracee); i++) {
		int signal;

		if (remote_call_is_next(stop->pid, tracee_tid(stop->tracee, i, &signal)))
			return true;
	}
	return false;
}

/* Return true if the routine of a killed tool is still running (own_stores.h). */
static bool runs_a_routine(const struct stop *stop)
{
	for (size_t i = 0; i < stop->maps.n; i++)
		if (is_of_stores(&stop->maps.mappings[i]) &&
		    have_address(stop, &stop->maps.mappings[i]))
			return true;
	return false;
}

/*
 * Return what the process is still doing for a killed tool, as text for a message; NULL if nothing.
 */
static const char *busy_with(const struct stop *stop)
{
	if (makes_a_call(stop))
		return "makes a system call";
	return runs_a_routine(stop) ? "switches probes" : NULL;
}

/*
 * Check that the process is alive. If /proc/PID/maps is empty, the main thread has released its
 * memory: the process is ending, even if its other threads still have the memory.
 */
static int check_alive(const struct stop *stop, const struct maps *maps)
{
	return maps->n ? memory_check_alive(stop->memory)
		       : ctx_error(stop->ctx, -ESRCH, "pid %d: has ended", (int)stop->pid);
}

int stop_check_alive(const struct stop *stop)
{
	struct maps maps;
	int err = maps_read(stop->ctx, stop->pid, &maps);

	if (!err)
		err = check_alive(stop, &maps);
	maps_free(&maps);
	return err;
}

int stop_work(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg)
{
	int err = maps_read(stop->ctx, stop->pid, &stop->maps);
	const char *what = NULL;
	int end_err;

	if (!err)
		err = check_alive(stop, &stop->maps);
	if (!err)
		what = busy_with(stop);
	stop->is_busy = what;
	if (what)
		err = ctx_error(stop->ctx, -EBUSY, "pid %d: still %s for a tool that was killed",
				(int)stop->pid, what);
	if (!err)
		err = work(stop, arg);
	end_err = remote_end(stop->remote);
	stop->remote = NULL;
	maps_free(&stop->maps);
	return err ? err : end_err;
}

struct stop_job {
	struct stop *stop;
	int (*work)(struct stop *stop, void *arg);
	void *arg;
};

static int do_work(void *arg)
{
	struct stop_job *work = arg;

	return stop_work(work->stop, work->work, work->arg);
}

int stop_run(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg)
{
	struct stop_job w = { stop, work, arg };
	int err = tracee_run_stopped(stop->tracee, do_work, &w);
	unsigned int us = FIRST_BUSY_US;

	for (int i = 0; err && stop->is_busy && i < BUSY_TRIES; i++) {
		usleep(us);
		us = 2 * us < LAST_BUSY_US ? 2 * us : LAST_BUSY_US;
		stop->is_busy = false;
		err = tracee_run_stopped(stop->tracee, do_work, &w);
	}
	return err;
}

int stop_begin_calls(struct stop *stop)
{
	if (stop->remote)
		return 0;
	if (!stop->plan)
		return ctx_error(stop->ctx, -ENOTSUP, "pid %d: cannot be called into",
				 (int)stop->pid);
	return remote_begin(stop->plan, stop->tracee, stop->patcher, &stop->maps, &stop->remote);
}

int stop_call(struct stop *stop, const char *name, long number, const uint64_t args[6],
	      uint64_t *result)
{
	int64_t value;
	int err = stop_begin_calls(stop);

	if (!err)
		err = remote_syscall(stop->remote, number, args, &value);
	if (err)
		return err;
	if (value < 0 && value >= -4095)
		return ctx_error(stop->ctx, (int)value, "pid %d: %s in the process: %s",
				 (int)stop->pid, name, strerror((int)-value));
	if (result)
		*result = (uint64_t)value;
	return 0;
}

/* ---- unmapping ------------------------------------------------------------------------------ */

enum { MAX_FDS = 16 }; /* more than enough: a killed tool leaves one descriptor */

int stop_unmap(struct stop *stop, uint64_t start, uint64_t end)
{
	const uint64_t args[6] = { start, end - start };
	int err = stop_call(stop, "munmap", SYS_munmap, args, NULL);

	/* Remove the range from the maps: whatever is mapped there later is not ours. */
	if (!err)
		maps_drop(&stop->maps, start, end);
	return err;
}

bool stop_may_use(const struct stop *stop, const struct block_header *header)
{
	bool may = false;

	for (uint64_t i = 0; !may && i < header->n_parts; i++) {
		const uint64_t code = header->parts[i].addr + header->code_off;

		may = threads_may_use(stop->tracee, stop->memory, &stop->maps, code,
				      code + header->parts[i].code_bytes);
	}
	return may;
}

int stop_unmap_block(struct stop *stop, const struct block_header *header)
{
	int err = 0;

	for (uint64_t i = 0; !err && i < header->n_parts; i++) {
		const struct block_part *part = &header->parts[i];

		err = stop_unmap(stop, part->addr,
				 part->addr + header->code_off + part->code_bytes);
	}
	return err;
}

static bool is_ours(const char *path)
{
	return strcmp(path, BLOCK_PATH) == 0 || strcmp(path, STORES_PATH) == 0;
}

/*
 * Find the descriptors of process PID that refer to our memfds: tools that were killed could not
 * close these. Return how many were found; FDS has room for MAX descriptors.
 */
static size_t find_descriptors(pid_t pid, int *fds, size_t max)
{
	struct dirent *entry;
	char path[PROC_PATH_BYTES];
	size_t n = 0;
	DIR *dir;

	proc_path(path, pid, "fd");
	dir = opendir(path);
	while (dir && n < max && (entry = readdir(dir))) {
		char target[sizeof(BLOCK_PATH) + 1];
		const ssize_t bytes =
			readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[bytes < 0 ? 0 : bytes] = '\0';
		if (is_ours(target))
			fds[n++] = (int)strtol(entry->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return n;
}

static void unmap_all_of(struct stop *stop, uint64_t inode)
{
	for (size_t i = stop->maps.n; i-- > 0;) {
		const struct mapping *m = &stop->maps.mappings[i];

		if (blocks_are_in(m) && m->inode == inode)
			stop_unmap(stop, m->start, m->end);
	}
}

/*
 * Remove orphans. No thread can be in the code of an orphan: the magic number is written before the
 * first site, parts are unmapped after the last site was restored, and stop_work() looks for
 * running routines.
 */
void stop_remove_orphans(struct stop *stop)
{
	struct block_found *blocks;
	int fds[MAX_FDS];
	size_t n, n_fds = find_descriptors(stop->pid, fds, MAX_FDS);

	/* Go backwards, because stop_unmap() removes elements of this array. */
	for (size_t i = stop->maps.n; i-- > 0;)
		if (is_of_stores(&stop->maps.mappings[i]))
			stop_unmap(stop, stop->maps.mappings[i].start, stop->maps.mappings[i].end);
	if (blocks_find(stop->ctx, stop->memory, &stop->maps, &blocks, &n) != 0)
		n = 0;
	for (size_t i = 0; i < n; i++)
		if (blocks[i].is_orphan)
			unmap_all_of(stop, blocks[i].inode);
	for (size_t i = 0; i < n_fds; i++)
		stop_call(stop, "close", SYS_close, (uint64_t[6]){ (uint64_t)fds[i] }, NULL);
	free(blocks);
}

/* ---- what killed tools have left ------------------------------------------------------------ */

static bool has_stores(const struct maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		if (is_of_stores(&maps->mappings[i]))
			return true;
	return false;
}

static int has_orphans(struct ocp_ctx *ctx, pid_t pid, const struct maps *maps)
{
	struct block_found *blocks = NULL;
	struct memory *memory;
	int fds[MAX_FDS], err = memory_open(ctx, pid, &memory);
	bool found = has_stores(maps) || find_descriptors(pid, fds, MAX_FDS);
	size_t n = 0;

	if (!err && !found)
		err = blocks_find(ctx, memory, maps, &blocks, &n);
	for (size_t i = 0; i < n; i++)
		found |= blocks[i].is_orphan;
	free(blocks);
	memory_close(memory);
	return err ? err : found;
}

static int remove_orphans(struct stop *stop, void *arg)
{
	(void)arg;
	if (stop->plan)
		stop_remove_orphans(stop);
	return 0;
}

int inside_clear(struct ocp_ctx *ctx, pid_t pid, bool all)
{
	struct stop stop;
	struct maps maps;
	int err = maps_read(ctx, pid, &maps), found;

	if (err)
		return err;
	found = all ? has_orphans(ctx, pid, &maps) : has_stores(&maps);
	maps_free(&maps);
	if (found <= 0)
		return found;
	err = stop_open(ctx, pid, NULL, &stop);
	if (err)
		return err;
	/*
	 * If remote calls cannot be planned, wait for running routines, but leave the memory
	 * mapped.
	 */
	if (remote_plan_make(ctx, pid, &stop.plan) != 0)
		stop.plan = NULL;
	err = stop_run(&stop, remove_orphans, NULL);
	stop_close(&stop);
	return err;
}

/* ---- memory that the process makes ---------------------------------------------------------- */

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* linux/memfd.h: Linux 6.3 */
#endif

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Make the process create the memfd. Write NAME to the memory of the process first. */
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
 * Set the size and the seals. Until the last seal is set, another process that has the file can
 * resize or seal it. So the first seal comes before the size: if another process changes size or
 * seals in between, either one of the calls below fails, or the comparison at the end does.
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

// SPDX-License-Identifier: MIT
#include "inside/stop.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "inside/blocks.h"
#include "tracee/proc_file.h"

int stop_open(struct ocp_ctx *ctx, pid_t pid, struct stop *stop)
{
	int err;

	*stop = (struct stop){ .ctx = ctx, .pid = pid };
	err = memory_open(ctx, pid, &stop->memory);
	if (!err)
		err = patcher_open(ctx, pid, &stop->patcher);
	if (!err)
		err = tracee_open(ctx, pid, &stop->tracee);
	if (err)
		stop_close(stop);
	return err;
}

void stop_close(struct stop *stop)
{
	tracee_close(stop->tracee);
	patcher_close(stop->patcher);
	memory_close(stop->memory);
	remote_plan_free(stop->plan);
	*stop = (struct stop){ 0 };
}

struct work {
	struct stop *stop;
	int (*work)(struct stop *stop, void *arg);
	void *arg;
};

static int do_work(void *arg)
{
	struct work *work = arg;
	struct stop *stop = work->stop;
	int err = maps_read(stop->ctx, stop->pid, &stop->maps);
	int end_err;

	if (!err)
		err = memory_check_alive(stop->memory);
	if (!err)
		err = work->work(stop, work->arg);
	end_err = remote_end(stop->remote);
	stop->remote = NULL;
	maps_free(&stop->maps);
	return err ? err : end_err;
}

int stop_run(struct stop *stop, int (*work)(struct stop *stop, void *arg), void *arg)
{
	return tracee_run_stopped(stop->tracee, do_work, &(struct work){ stop, work, arg });
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

/* ---- stores by the process itself ----------------------------------------------------------- */

static int protect(struct stop *stop, const struct mapping *m, int prot)
{
	const uint64_t args[6] = { m->start, m->end - m->start, (uint64_t)prot };

	return stop_call(stop, "mprotect", SYS_mprotect, args, NULL);
}

/* Mark the mappings that a site to be stored lies in. -ENOTSUP: it is not ordinary text. */
static int mark_text(const struct stop *stop, const struct inside *inside, bool *marks)
{
	const struct block_site *sites = inside_sites(inside);
	const struct mapping *m = NULL; /* of the last one: mostly that of the next one, too */

	for (size_t i = 0; i < inside->header.n_sites; i++) {
		/* A site can lie on two mappings: its first and its last byte. */
		for (uint64_t off = 0; sites[i].store && off <= 5; off += 5) {
			const uint64_t addr = sites[i].addr + off;

			if (m && addr >= m->start && addr < m->end)
				continue;
			m = maps_find(&stop->maps, addr);
			if (!m || !m->readable || !m->executable || m->writable)
				return -ENOTSUP;
			marks[m - stop->maps.mappings] = true;
		}
	}
	return 0;
}

/*
 * If we are killed meanwhile, the process goes on with writable text, and the routine writes all sites: so
 * the text stays executable, too.
 */
int stop_store(struct stop *stop, const struct inside *inside, uint64_t addr)
{
	bool *marks = calloc(stop->maps.n + 1, sizeof(*marks));
	int err = marks ? mark_text(stop, inside, marks) : ctx_no_memory(stop->ctx);
	size_t i = 0;

	for (; !err && i < stop->maps.n; i++)
		if (marks[i])
			err = protect(stop, &stop->maps.mappings[i],
				      PROT_READ | PROT_WRITE | PROT_EXEC);
	if (!err)
		err = remote_run(stop->remote, addr, inside->header.addr);
	else if (stop->remote && err != -ETIMEDOUT && err != -ESRCH)
		err = -ENOTSUP;
	while (marks && i-- > 0 && err != -ETIMEDOUT && err != -ESRCH)
		if (marks[i] && protect(stop, &stop->maps.mappings[i], PROT_READ | PROT_EXEC) != 0)
			ctx_log(stop->ctx, OCP_LOG_WARN, "%s; its code stays writable",
				ocp_error(stop->ctx));
	free(marks);
	return err;
}

/* ---- unmapping ------------------------------------------------------------------------------ */

int stop_unmap(struct stop *stop, uint64_t start, uint64_t end)
{
	const uint64_t args[6] = { start, end - start };

	return stop_call(stop, "munmap", SYS_munmap, args, NULL);
}

/* Numbers of the descriptors that are memfds of ours: a tool was killed before it closed them. */
static size_t find_descriptors(const struct stop *stop, int *fds, size_t max)
{
	static const char name[] = BLOCK_PATH;
	struct dirent *entry;
	char path[PROC_PATH_BYTES];
	size_t n = 0;
	DIR *dir;

	proc_path(path, stop->pid, "fd");
	dir = opendir(path);
	while (dir && n < max && (entry = readdir(dir))) {
		char target[sizeof(name) + 1];
		const ssize_t bytes = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));

		if (bytes == sizeof(name) - 1 && memcmp(target, name, sizeof(name) - 1) == 0)
			fds[n++] = (int)strtol(entry->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return n;
}

/* No thread can be in an orphan: the magic number is written before the first site. */
void stop_remove_orphans(struct stop *stop)
{
	enum { MAX_FDS = 16 };
	struct block_found *blocks;
	int fds[MAX_FDS];
	size_t n, n_fds = find_descriptors(stop, fds, MAX_FDS);

	if (blocks_find(stop->ctx, stop->memory, &stop->maps, &blocks, &n) != 0)
		n = 0;
	for (size_t i = 0; i < n; i++)
		if (!blocks[i].is_complete)
			stop_unmap(stop, blocks[i].start, blocks[i].end);
	for (size_t i = 0; i < n_fds; i++)
		stop_call(stop, "close", SYS_close, (uint64_t[6]){ (uint64_t)fds[i] }, NULL);
	free(blocks);
}

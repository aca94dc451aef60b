// SPDX-License-Identifier: MIT
#include "profile/ready_time.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"

struct ready_thread {
	pid_t tid;
	uint64_t ns; /* what the kernel's account said at the last refresh */
	bool is_seen;
};

struct ready_process {
	pid_t pid;
	dev_t dev; /* of the file that the process executes */
	ino_t ino;
	bool is_known; /* the threads have been read; threads that appear later are new */
	struct ready_thread *threads; /* sorted by tid */
	size_t n;
};

struct ready_time {
	struct ocp_ctx *ctx;
	struct ready_process *processes;
	size_t n;
	uint64_t sum_ns;
	bool is_unknown, is_stopped;
};

int ready_time_open(struct ocp_ctx *ctx, struct ready_time **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return ctx_no_memory(ctx);
	(*out)->ctx = ctx;
	return 0;
}

void ready_time_close(struct ready_time *rt)
{
	if (!rt)
		return;
	for (size_t i = 0; i < rt->n; i++)
		free(rt->processes[i].threads);
	free(rt->processes);
	free(rt);
}

/* ---- reading -------------------------------------------------------------------------------- */

/*
 * Set *NS to the account of thread TID in the directory TASK_FD. Return false if the thread has
 * ended, or if the kernel keeps no accounts.
 */
static bool read_account(int task_fd, const char *tid, uint64_t *ns)
{
	char path[64], text[128];
	ssize_t n = -1;
	char *end;
	int fd;

	snprintf(path, sizeof(path), "%.20s/schedstat", tid);
	fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	text[n] = '\0';
	strtoull(text, &end, 10);
	if (end == text || *end != ' ')
		return false;
	*ns = strtoull(end, NULL, 10);
	return true;
}

static struct ready_thread *find_ready_thread(struct ready_process *process, pid_t tid)
{
	const size_t at = SEARCH(i, process->n, process->threads[i].tid < tid);

	if (at < process->n && process->threads[at].tid == tid)
		return &process->threads[at];
	if (!array_add(process->threads, process->n))
		return NULL;
	memmove(process->threads + at + 1, process->threads + at,
		(process->n - 1 - at) * sizeof(*process->threads));
	process->threads[at] = (struct ready_thread){ .tid = tid };
	return &process->threads[at];
}

/* The account of THREAD says NS: add what was added to it since the last time. */
static void count_ready(struct ready_time *rt, const struct ready_process *process,
			struct ready_thread *thread, uint64_t ns)
{
	/* A smaller number is that of a new thread with the id of one that has ended. */
	const uint64_t before = ns < thread->ns ? 0 : thread->ns;

	if (process->is_known)
		rt->sum_ns += ns - before;
	thread->ns = ns;
	thread->is_seen = true;
}

static void forget_unseen(struct ready_process *process)
{
	size_t n = 0;

	for (size_t i = 0; i < process->n; i++)
		if (process->threads[i].is_seen)
			process->threads[n++] = process->threads[i];
	process->n = n;
}

/* Open the directory of threads. Return NULL if PROCESS has ended or executes another file. */
static DIR *open_tasks(struct ready_process *process)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
	if (stat(path, &st) != 0)
		return NULL;
	if (process->is_known && (st.st_dev != process->dev || st.st_ino != process->ino))
		return NULL;
	process->dev = st.st_dev;
	process->ino = st.st_ino;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)process->pid);
	return opendir(path);
}

static void read_ready_process(struct ready_time *rt, struct ready_process *process)
{
	DIR *tasks = open_tasks(process);
	struct dirent *entry;

	if (!tasks)
		return;
	for (size_t i = 0; i < process->n; i++)
		process->threads[i].is_seen = false;
	while ((entry = readdir(tasks))) {
		struct ready_thread *thread;
		uint64_t ns;

		if (entry->d_name[0] == '.' || !read_account(dirfd(tasks), entry->d_name, &ns))
			continue;
		thread = find_ready_thread(process, (pid_t)strtol(entry->d_name, NULL, 10));
		if (thread)
			count_ready(rt, process, thread, ns);
		else
			rt->is_unknown = true;
	}
	closedir(tasks);
	forget_unseen(process);
	process->is_known = true;
}

/* ---- the processes -------------------------------------------------------------------------- */

int ready_time_add(struct ready_time *rt, pid_t pid)
{
	struct ready_process *new = array_add(rt->processes, rt->n);

	if (!new)
		return ctx_no_memory(rt->ctx);
	*new = (struct ready_process){ .pid = pid };
	if (access("/proc/self/schedstat", R_OK) != 0)
		rt->is_unknown = true;
	read_ready_process(rt, new);
	return 0;
}

void ready_time_start(struct ready_time *rt)
{
	ready_time_refresh(rt);
	rt->sum_ns = 0;
}

void ready_time_refresh(struct ready_time *rt)
{
	for (size_t i = 0; i < rt->n && !rt->is_stopped; i++)
		read_ready_process(rt, &rt->processes[i]);
}

void ready_time_stop(struct ready_time *rt)
{
	ready_time_refresh(rt);
	rt->is_stopped = true;
}

bool ready_time_ns(const struct ready_time *rt, uint64_t *ns)
{
	*ns = rt->sum_ns;
	return !rt->is_unknown;
}

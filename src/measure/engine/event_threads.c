// SPDX-License-Identifier: MIT
#include "measure/engine/event_threads.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "look/proc_file.h"

enum {
	FIRST_ROOM = 256,
	MOST_THREADS = 1 << 20,
	FRESH_NS = 1000 * 1000 * 1000,
};

static const char unknown[THREAD_NAME_BYTES] = "(has ended)";

struct event_threads {
	struct ocp_ctx *ctx;
	const struct inside *inside;
	pid_t pid;
	bool is_other_namespace; /* the process is in another pid namespace than this tool */
	int64_t now_ns;
	struct event_thread *list; /* a hash table with ROOM places, a power of 2 */
	size_t n, room;
	struct event_thread *last; /* the result of the last search */
};

static bool has_other_namespace(pid_t pid)
{
	char path[PROC_PATH_BYTES], ours[64], its[64];
	ssize_t n_ours, n_its;

	proc_path(path, pid, "ns/pid");
	n_ours = readlink("/proc/self/ns/pid", ours, sizeof(ours));
	n_its = readlink(path, its, sizeof(its));
	return n_ours > 0 && n_its > 0 &&
	       (n_ours != n_its || memcmp(ours, its, (size_t)n_its) != 0);
}

struct event_threads *event_threads_new(struct ocp_ctx *ctx, const struct inside *inside, pid_t pid)
{
	struct event_threads *threads = calloc(1, sizeof(*threads));

	if (!threads)
		return NULL;
	*threads = (struct event_threads){
		.ctx = ctx,
		.inside = inside,
		.pid = pid,
		.is_other_namespace = has_other_namespace(pid),
		.list = calloc(FIRST_ROOM, sizeof(*threads->list)),
		.room = FIRST_ROOM,
	};
	if (threads->list)
		return threads;
	free(threads);
	return NULL;
}

void event_threads_free(struct event_threads *threads)
{
	if (!threads)
		return;
	free(threads->list);
	free(threads);
}

void event_threads_begin(struct event_threads *threads, int64_t now_ns)
{
	threads->now_ns = now_ns;
	threads->last = NULL;
}

bool event_thread_has_ended(pid_t pid, pid_t tid)
{
	char path[PROC_PATH_BYTES + 32];
	uint64_t start_time;

	if (pid == tid)
		return proc_start_time(pid, &start_time) != 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return access(path, F_OK) != 0;
}

/* ---- /proc ---------------------------------------------------------------------------------- */

/*
 * Set *TID to the thread of the process that has the id ID in its own pid namespace. Return false
 * if there is none.
 */
static bool find_in_namespace(const struct event_threads *threads, uint32_t id, pid_t *tid)
{
	char path[PROC_PATH_BYTES];
	const struct dirent *entry;
	bool found = false;
	DIR *folder;

	proc_path(path, threads->pid, "task");
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder))) {
		struct proc_status status;

		*tid = atoi(entry->d_name);
		found = *tid > 0 && proc_status_read(threads->ctx, *tid, &status) == 0 &&
			status.ns_pid == (pid_t)id;
	}
	if (folder)
		closedir(folder);
	return found;
}

/* Fill in THREAD from the status of the thread with its tid. */
static void look_up(const struct event_threads *threads, struct event_thread *thread)
{
	struct proc_status status;
	bool is_ours = true;

	thread->looked_ns = threads->now_ns;
	thread->tid = (pid_t)thread->id;
	if (threads->is_other_namespace)
		is_ours = find_in_namespace(threads, thread->id, &thread->tid);
	is_ours = is_ours && proc_status_read(threads->ctx, thread->tid, &status) == 0 &&
		  (status.tgid == threads->pid || inside_is_in(threads->inside, status.tgid));
	thread->is_unknown = !is_ours;
	thread->pid = is_ours ? status.tgid : threads->pid;
	if (!is_ours)
		thread->tid = (pid_t)thread->id;
	memset(thread->comm, 0, sizeof(thread->comm));
	if (is_ours)
		memcpy(thread->comm, status.name, strnlen(status.name, sizeof(thread->comm) - 1));
	else
		memcpy(thread->comm, unknown, sizeof(unknown));
}

/* Look THREAD up again. What was known of a thread stays known after its end. */
static void look_again(const struct event_threads *threads, struct event_thread *thread)
{
	struct event_thread now = { .id = thread->id };

	look_up(threads, &now);
	if (now.is_unknown && !thread->is_unknown)
		thread->looked_ns = threads->now_ns;
	else
		*thread = now;
}

/* ---- the table ------------------------------------------------------------------------------ */

static struct event_thread *place_of(struct event_thread *list, size_t room, uint32_t id)
{
	size_t i = id * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (room - 1);

	while (list[i].id && list[i].id != id)
		i = (i + 1) & (room - 1);
	return &list[i];
}

static bool enlarge_threads(struct event_threads *threads)
{
	const size_t room = 2 * threads->room;
	struct event_thread *list = calloc(room, sizeof(*list));

	if (!list)
		return false;
	for (size_t i = 0; i < threads->room; i++)
		if (threads->list[i].id)
			*place_of(list, room, threads->list[i].id) = threads->list[i];
	free(threads->list);
	threads->list = list;
	threads->room = room;
	return true;
}

const struct event_thread *event_threads_find(struct event_threads *threads, uint32_t id)
{
	struct event_thread *thread = threads->last;

	if (thread && thread->id == id)
		return thread;
	thread = place_of(threads->list, threads->room, id);
	if (!thread->id) {
		if (threads->n == MOST_THREADS ||
		    (2 * threads->n >= threads->room && !enlarge_threads(threads)))
			return NULL;
		thread = place_of(threads->list, threads->room, id);
		thread->id = id;
		look_up(threads, thread);
		threads->n++;
	} else if (threads->now_ns - thread->looked_ns >= FRESH_NS) {
		look_again(threads, thread);
	}
	threads->last = thread;
	return thread;
}

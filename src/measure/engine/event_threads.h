/* SPDX-License-Identifier: MIT */
/*
 * The threads that have written events inside a process (change/inside/rings.h). An event has the
 * id that the C library keeps: the id of the thread in its own pid namespace. The process can write
 * any id, so it is looked up in /proc.
 */
#ifndef MEASURE_ENGINE_EVENT_THREADS_H
#define MEASURE_ENGINE_EVENT_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "base/thread_name.h"
#include "change/inside/inside.h"

struct event_thread {
	uint32_t id; /* as in the event; 0: an unused place of the table */
	/*
	 * The process of the thread: the one that was attached, or a child forked from it. tid is
	 * the thread's id in our pid namespace.
	 */
	pid_t pid, tid;
	/*
	 * The thread had ended when it was looked up. Then pid is the process that was attached,
	 * tid is `id`, and comm says that the thread is not known.
	 */
	bool is_unknown;
	int64_t looked_ns; /* when it was looked up last */
	char comm[THREAD_NAME_BYTES];
};

struct event_threads;

/* INSIDE counts in process PID, and must outlive the result. Return NULL if memory is short. */
struct event_threads *event_threads_new(struct ocp_ctx *ctx, const struct inside *inside,
					pid_t pid);
void event_threads_free(struct event_threads *threads);

/* A new reading of events begins at NOW_NS: names that are a second old are read again. */
void event_threads_begin(struct event_threads *threads, int64_t now_ns);

/*
 * Return thread ID. The result is valid until the next call. Return NULL if memory is short, or if
 * the process has claimed to have too many threads.
 */
const struct event_thread *event_threads_find(struct event_threads *threads, uint32_t id);

/* Return true if thread TID of process PID, or the process if TID is PID, has ended. */
bool event_thread_has_ended(pid_t pid, pid_t tid);

#endif

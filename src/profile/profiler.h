/* SPDX-License-Identifier: MIT */
/*
 * Samples the stacks of processes: loads and attaches bpf/profile.bpf.c. The order of calls is
 * open, add_process (any number of times, also later), start, refresh (now and then), stop, read,
 * close.
 */
#ifndef PROFILE_PROFILER_H
#define PROFILE_PROFILER_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "samples.h"
#include "unwind/stack_store.h"
#include "unwind/stack_walker.h"

enum profile_kind {
	PROFILE_CPU,   /* time on the CPU */
	PROFILE_WAITS, /* time off the CPU */
	PROFILE_WORDS, /* allocated words */
	PROFILE_GC,    /* time on the CPU in the collector */
};

struct profiler_spec {
	enum profile_kind kind;
	/*
	 * Samples per second and CPU. With PROFILE_WORDS: the most samples of minor heaps per
	 * second and CPU; 0: the default.
	 */
	unsigned int hz;
	size_t max_processes; /* at one time */
	bool counts_cost;     /* profiler_cost() may be called */
	pid_t pid;	      /* one of the processes: the others are in its pid namespace */
	/* File: processes that begin to execute it are profiled, too. NULL: none. */
	const char *exe;
};

/* One stack, and how often it was seen in a thread. */
struct profile_sample {
	const struct stored_stack *stack;
	uint32_t tgid, tid;
	uint64_t n;
	uint64_t sum;	/* as in struct profile_count */
	uint64_t heaps; /* as in struct profile_count */
	uint64_t value; /* nanoseconds, or with PROFILE_WORDS words */
};

/* All samples so far. */
struct profile_reading {
	struct stack_store *stacks;
	struct profile_sample *samples;
	size_t n;
	struct stack_losses stack_losses;
	struct profile_losses losses;
	size_t n_processes;
	size_t n_always_waiting; /* threads that waited for all of the time */
	size_t n_without_stack;	 /* samples whose stack was not there when stacks were read */
	size_t n_without_words;	 /* samples of minor heaps, of processes that ended unread */
	double unsure_words;	 /* error bound of the words in small blocks */
	double missing_words; /* in small blocks, of processes without a sample of a minor heap */
};

struct profiler;

int profiler_open(struct ocp_ctx *ctx, const struct profiler_spec *spec, struct profiler **out);
/* Stop if necessary, and free PROFILER, which may be NULL. */
void profiler_close(struct profiler *profiler);

int profiler_add_process(struct profiler *profiler, pid_t pid);
int profiler_start(struct profiler *profiler);
/* Read the mappings of processes that have loaded code. Call this about once a second. */
int profiler_refresh(struct profiler *profiler);
void profiler_stop(struct profiler *profiler);
/*
 * CLOCK_MONOTONIC when everything was attached, and at the stop; 0: not yet. The time of a thread
 * that has not stopped waiting is counted between these two.
 */
int64_t profiler_start_ns(const struct profiler *profiler);
int64_t profiler_stop_ns(const struct profiler *profiler);
/* Stop sampling the CPU until profiler_start(). Ends of processes are still followed. */
void profiler_pause(struct profiler *profiler);

/* Set *TGID to the id by which BPF programs know PID. */
int profiler_process_id(const struct profiler *profiler, pid_t pid, uint32_t *tgid);
/* Is TGID being sampled? Not after it has ended or executed another program. */
bool profiler_has_process(const struct profiler *profiler, uint32_t tgid);
void profiler_forget_process(const struct profiler *profiler, uint32_t tgid);
/* Return the words that TGID has allocated in minor heaps since it was added; for PROFILE_WORDS. */
double profiler_minor_words(const struct profiler *profiler, uint32_t tgid);

/* The time that the processes have lost to the samples so far. */
struct profiler_cost {
	double ns;
	double large_ns; /* the part for large blocks, which profiler_stop_large() saves */
};
int profiler_cost(struct profiler *profiler, struct profiler_cost *cost);
/* Stop sampling large blocks. From now on, the words in them are missing. */
void profiler_stop_large(struct profiler *profiler);

/* Read all samples so far. The caller frees the reading with profile_reading_free(). */
int profiler_read(struct profiler *profiler, struct profile_reading *reading);
void profile_reading_free(struct profile_reading *reading);

/* Return the walker, which knows the places of frames. It is valid as long as PROFILER. */
const struct stack_walker *profiler_walker(const struct profiler *profiler);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Takes samples of the stacks of processes: bpf/profile.bpf.c, loaded and attached. The order of calls
 * is open, add_process (any number of times, also later), start, refresh (now and then), stop, read,
 * close.
 */
#ifndef PROFILE_PROFILER_H
#define PROFILE_PROFILER_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "samples.h"
#include "unwind/stack_walker.h"

enum profile_kind {
	PROFILE_CPU,   /* what runs */
	PROFILE_WAITS, /* what waits, off the CPU */
	PROFILE_WORDS, /* what allocates */
	PROFILE_GC,    /* what the collector runs for: what runs, if it is in the collector */
};

struct profiler_spec {
	enum profile_kind kind;
	unsigned int hz;      /* samples per second and CPU; for PROFILE_CPU */
	size_t max_processes; /* at one time */
	pid_t pid;	      /* one of the processes: the others are in its pid namespace */
};

/* One stack, and how often it was seen in a thread. */
struct profile_sample {
	const struct walk_stack *stack;
	uint32_t tgid, tid;
	uint64_t n;
	uint64_t sum;	/* as in struct profile_count */
	uint64_t value; /* nanoseconds, or with PROFILE_WORDS words */
};

/* What has been sampled so far. */
struct profile_reading {
	struct walk_stack *stacks;
	size_t n_stacks;
	struct profile_sample *samples;
	size_t n;
	struct profile_losses losses;
	size_t n_without_stack; /* samples whose stack was lost between two reads of the kernel */
};

struct profiler;

int profiler_open(struct ocp_ctx *ctx, const struct profiler_spec *spec, struct profiler **out);
/* Detaches if necessary. */
void profiler_close(struct profiler *profiler);

int profiler_add_process(struct profiler *profiler, pid_t pid);
int profiler_start(struct profiler *profiler);
/* Read the mappings of processes that have loaded code. To be called about once a second. */
int profiler_refresh(struct profiler *profiler);
void profiler_stop(struct profiler *profiler);

/* The caller frees the reading with profile_reading_free. */
int profiler_read(struct profiler *profiler, struct profile_reading *reading);
void profile_reading_free(struct profile_reading *reading);

/* Names the places of frames. It exists as long as the profiler. */
const struct stack_walker *profiler_walker(const struct profiler *profiler);

#endif

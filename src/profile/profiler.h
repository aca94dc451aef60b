/* SPDX-License-Identifier: MIT */
/*
 * Samples the stacks of processes: loads and attaches bpf/profile.bpf.c, or, where BPF is not
 * permitted, stops threads by ptrace(2) (thread_sampler.h). The order of calls is open,
 * add_process (any number of times, also later), start, refresh (about once a second), stop, read,
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
#include "base/thread_name.h"
#include "ocaml_probes_measure.h"
#include "samples.h"
#include "unwind/stack_store.h"
#include "unwind/stack_walker.h"

enum profile_kind {
	PROFILE_CPU,   /* time on the CPU */
	PROFILE_WAITS, /* time off the CPU */
	PROFILE_WORDS, /* allocated words */
	PROFILE_GC,    /* time on the CPU in the garbage collector */
};

struct profiler_spec {
	enum profile_kind kind;
	/*
	 * Samples per second and CPU. For PROFILE_WORDS: the maximum number of samples of minor
	 * heaps per second and CPU; 0: the default.
	 */
	unsigned int hz;
	size_t max_processes; /* maximum number of processes at one time */
	bool counts_cost;     /* profiler_cost() may be called */
	bool by_thread;	      /* samples have the names of their threads */
	/*
	 * For PROFILE_WAITS: profile_make() keeps the threads that waited the whole time. Without
	 * this, it leaves them out if other threads have waited.
	 */
	bool keeps_idle;
	/* For PROFILE_WAITS, with BPF: record which threads end the waits for locks. */
	bool finds_releases;
	/*
	 * Sample without BPF, by ptrace(2). Not for PROFILE_WORDS. For PROFILE_WAITS, hz is the
	 * number of looks per second. Without `exe`.
	 */
	bool by_ptrace;
	/* Keep each sample with its time, for profiler_take_moments(), instead of counting. */
	bool keeps_moments;
	pid_t pid; /* any one of the processes; the other processes must be in its pid namespace */
	/* An executable file: processes that begin to execute it are profiled, too. NULL: none. */
	const char *exe;
};

/* The samples of one stack in one thread, as long as the thread has the same name. */
struct profile_sample {
	const struct stored_stack *stack;
	uint32_t tgid, tid;
	uint64_t n;
	uint64_t sum;	/* as in struct profile_count; by ptrace: the value */
	uint64_t heaps; /* as in struct profile_count */
	uint64_t value; /* nanoseconds, or words for PROFILE_WORDS */
	bool is_idle;	/* the thread has waited the whole time, in one wait */
	bool is_open;	/* the wait has not ended */
	/* the name of the thread at the samples; "" unless spec.by_thread is set */
	char comm[THREAD_NAME_BYTES];
};

/* The waits that have one stack, and that one thread has ended, each time with the same stack. */
struct release_sample {
	const struct stored_stack *wait, *stack; /* the second one is of the thread that ended it */
	uint32_t tgid, tid;			 /* that thread */
	char comm[THREAD_NAME_BYTES];
	uint64_t n, ns;
};

/* All samples so far. */
struct profile_reading {
	struct stack_store *stacks;	 /* NULL if spec.by_ptrace is set */
	struct release_sample *releases; /* only if spec.finds_releases is set */
	size_t n_releases;
	struct profile_sample *samples;
	size_t n;
	struct stack_losses stack_losses;
	struct profile_losses losses;
	size_t n_processes;
	size_t n_always_waiting; /* threads that waited the whole time */
	/*
	 * for PROFILE_WAITS, if knows_ready: how long threads could run, but had no CPU
	 * (ready_time.h)
	 */
	uint64_t ready_ns;
	bool knows_ready;
	/*
	 * by ptrace: samples of threads that began to wait or ended before the stop, or had another
	 * tracer
	 */
	size_t n_missed;
	size_t n_in_calls;	/* by ptrace: samples at the end of a system call */
	size_t n_without_stack; /* samples whose stack was missing when the stacks were read */
	/*
	 * samples of minor heaps in processes that ended before we read how many words they had
	 * allocated
	 */
	size_t n_without_words;
	double unsure_words; /* error bound of the number of words in small blocks */
	/*
	 * Words in small blocks that were allocated by processes without a sample of a minor heap.
	 */
	double missing_words;
};

struct profiler;

int profiler_open(struct ocp_ctx *ctx, const struct profiler_spec *spec, struct profiler **out);
/* Stop sampling if necessary, and free PROFILER, which may be NULL. */
void profiler_close(struct profiler *profiler);

int profiler_add_process(struct profiler *profiler, pid_t pid);
int profiler_start(struct profiler *profiler);
/* Read the mappings of processes that have loaded code. Call this about once a second. */
int profiler_refresh(struct profiler *profiler);
void profiler_stop(struct profiler *profiler);
/*
 * Return the time (CLOCK_MONOTONIC) at which everything was attached (profiler_start_ns) or at
 * which sampling was stopped (profiler_stop_ns), or 0 if this has not happened yet. If a thread
 * still waits at the stop, its wait is counted up to the stop.
 */
int64_t profiler_start_ns(const struct profiler *profiler);
int64_t profiler_stop_ns(const struct profiler *profiler);
/*
 * Stop sampling the CPU until profiler_start() is called again. Ends of processes are still
 * recorded.
 */
void profiler_pause(struct profiler *profiler);

/* Set *TGID to the id by which BPF programs know PID. */
int profiler_process_id(const struct profiler *profiler, pid_t pid, uint32_t *tgid);
/*
 * Return true if process TGID is being sampled. Sampling ends when the process exits or executes
 * another program.
 */
bool profiler_has_process(const struct profiler *profiler, uint32_t tgid);
void profiler_forget_process(const struct profiler *profiler, uint32_t tgid);
/*
 * Return how many words process TGID has allocated in minor heaps since it was added. Only for
 * PROFILE_WORDS.
 */
double profiler_minor_words(const struct profiler *profiler, uint32_t tgid);

/* The time that sampling has cost the processes so far, in nanoseconds. */
struct profiler_cost {
	double ns;
	/* the part of `ns` for large blocks, which profiler_stop_large() would save */
	double large_ns;
};
/*
 * Set *COST to the cost so far. COSTS has the cost of a uprobe on this machine
 * (measure/calibrate.h), and is used only for PROFILE_WORDS.
 */
int profiler_cost(struct profiler *profiler, const struct ocp_costs *costs,
		  struct profiler_cost *cost);
/*
 * Stop sampling large blocks. From now on, the profile lacks the words that are allocated in large
 * blocks.
 */
void profiler_stop_large(struct profiler *profiler);

/*
 * Only with spec.keeps_moments, which excludes by_ptrace and PROFILE_WORDS: call FN(DATA, moment)
 * for each sample since the last call, in the order in which they were taken on each CPU. Call this
 * several times per second: samples that find the buffer full are lost, and are counted in
 * moments_full of struct profile_losses. Returns 0 or a negative errno.
 */
int profiler_take_moments(struct profiler *profiler,
			  void (*fn)(void *data, const struct profile_moment *moment), void *data);
/*
 * Likewise for the waits that have not ended: each one ends now, and will be passed again by
 * profiler_take_moments() when it has ended. Call this once, when nothing is taken any more.
 */
int profiler_take_open_waits(struct profiler *profiler,
			     void (*fn)(void *data, const struct profile_moment *moment),
			     void *data);
/* Set *N to the number of samples that were lost, for this or another reason. */
int profiler_n_lost(struct profiler *profiler, uint64_t *n);
/* Read the stacks of the samples so far. The caller frees *STACKS with stack_store_free(). */
int profiler_read_stacks(struct profiler *profiler, struct stack_store **stacks);

/* Read all samples so far. The caller frees the reading with profile_reading_free(). */
int profiler_read(struct profiler *profiler, struct profile_reading *reading);
void profile_reading_free(struct profile_reading *reading);

/* Return the stack walker, which knows the places of frames. It is valid as long as PROFILER. */
const struct stack_walker *profiler_walker(const struct profiler *profiler);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Room profile: sampled stacks.
 * In: processes, and the event that takes a sample.
 * Out: a profile: named stacks with values.
 * Callers: memprof, profile/formats, serve and tool.
 */
/* A profile: named stacks and their values. It is the input of the writers of all formats. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "unwind/frame_names.h"
#include "profile/profiler.h"

/*
 * A thread of a profile that is split by thread, under one name: a thread that changes its name is
 * several of these. If a later thread gets the id and the name of a thread that has ended, the two
 * are one.
 */
struct profile_thread {
	/*
	 * The first frame of each stack of the thread. Its kind is FRAME_THREAD, its function is
	 * `text`.
	 */
	struct named_frame frame;
	char text[THREAD_TEXT_BYTES]; /* see thread_frame_text() */
	char name[THREAD_NAME_BYTES]; /* the name of the thread when the samples were taken */
	pid_t pid, tid;		      /* in the pid namespace of the processes */
	uint64_t samples, value;
};

struct named_stack {
	/*
	 * The frames, outermost first, with inlined and kernel frames. If the profile is split by
	 * thread, the first one stands for the thread.
	 */
	const struct named_frame **frames;
	size_t n;
	uint64_t samples;
	uint64_t value; /* nanoseconds on the CPU or of waiting, or allocated words */
	/*
	 * Only if profile.has_heap: the number of allocated blocks, the number of words that are
	 * alive, and the number of blocks that are alive.
	 */
	uint64_t objects, live, live_objects;
};

/*
 * The CPU time, in nanoseconds, that the samples of a profile of kind PROFILE_CPU or PROFILE_GC
 * stand for: all samples, and the samples in the garbage collector.
 */
struct collector_time {
	/* `collector` includes time that is neither minor nor major */
	uint64_t all, collector, minor, major;
	/* `doubtful`: samples that lack callers and so may be in the collector */
	uint64_t samples, doubtful;
};

struct lock_releases;

struct profile {
	enum profile_kind kind;
	struct collector_time collector;
	unsigned int hz;      /* samples per second; for PROFILE_CPU and PROFILE_GC */
	bool by_ptrace;	      /* as in struct profiler_spec; unknown for a profile of a file */
	uint64_t start_ns;    /* since 1970 */
	uint64_t duration_ns; /* how long samples were taken */
	bool has_heap; /* made by Gc.Memprof; stacks have `objects`, `live` and `live_objects` */
	bool is_live;  /* if has_heap: readers show live words first */
	uint64_t word_period; /* if has_heap: words that one sample stands for */
	char *comments;	      /* lines of text for readers, allocated with malloc(3); NULL: none */
	/* The stacks, the largest value first. No two stacks have the same functions and lines. */
	struct named_stack *stacks;
	size_t n;
	uint64_t samples, value; /* sums over all stacks */
	/* if the profile is split by thread: the threads with samples, the largest value first */
	struct profile_thread **threads;
	size_t n_threads;
	size_t processes;      /* number of profiled processes; 0: not known */
	size_t always_waiting; /* for PROFILE_WAITS: threads that waited the whole time */
	bool lacks_idle;       /* these threads have no stacks here */
	/* for PROFILE_WAITS, if knows_ready: see struct profile_reading */
	uint64_t ready_ns;
	bool knows_ready;
	/* for PROFILE_WAITS: who ended waits for locks (lock_releases.h); NULL: not recorded */
	struct lock_releases *locks;
	uint64_t truncated;	 /* samples whose stack lacks callers */
	uint64_t in_calls;	 /* see n_in_calls of struct profile_reading */
	uint64_t lost;		 /* samples that are in none of the stacks */
	uint64_t lost_otherwise; /* those of `lost` whose reason is not in the structs below */
	/*
	 * For PROFILE_WORDS. unsure_words and missing_words are about small blocks; each is set to
	 * 0 if it is at most 1 % of all words.
	 */
	uint64_t unsure_words;	/* error bound of the number of words */
	uint64_t missing_words; /* words that are in no stack, since no minor heap ran out */
	uint64_t large_ns;	/* how long large blocks were sampled; 0: for all of the time */
	struct stack_losses stack_losses; /* the reasons why samples are truncated or lost */
	struct profile_losses losses;	  /* further reasons why samples are lost */
};

/*
 * Make PROFILE from READING: name the stacks, and merge stacks that have the same functions and
 * lines. The frames are valid as long as NAMES. The caller sets the times.
 */
int profile_make(struct ocp_ctx *ctx, const struct profile_reading *reading,
		 struct frame_names *names, const struct profiler_spec *spec,
		 struct profile *profile);
void profile_free(struct profile *profile);

struct stack_namer;
/*
 * Name the stack of SAMPLE by NAMER, and append it to PROFILE, whose `stacks` must have room. If
 * BY_THREAD is set, the first frame stands for the thread. Returns 0 or a negative errno.
 */
int profile_add_sample(struct stack_namer *namer, const struct profile_sample *sample,
		       bool by_thread, struct profile *profile);

/* Merge stacks that have the same functions and lines, and sort the stacks. */
void profile_merge(struct profile *profile);

/*
 * Compare functions by name. An OCaml function and a C function with the same name are equal, since
 * the folded form does not distinguish OCaml from C; a kernel function with this name differs from
 * both.
 */
int profile_compare_frames(const struct named_frame *a, const struct named_frame *b);
int profile_compare_stacks(const struct named_stack *a, const struct named_stack *b);

/* Return the thread of STACK, or NULL if the profile is not split by thread. */
static inline const struct profile_thread *profile_stack_thread(const struct named_stack *stack)
{
	/* The frame is the first member of the thread. */
	return stack->n && stack->frames[0]->kind == FRAME_THREAD
		       ? (const struct profile_thread *)stack->frames[0]
		       : NULL;
}

/* Return the index of the first frame of STACK that does not stand for a thread. */
static inline size_t profile_stack_first(const struct named_stack *stack)
{
	return profile_stack_thread(stack) ? 1 : 0;
}

/* Return true if callers are missing in STACK. */
static inline bool profile_stack_is_truncated(const struct named_stack *stack)
{
	const size_t first = profile_stack_first(stack);

	return first < stack->n && stack->frames[first]->kind == FRAME_TRUNCATED;
}

/* Return VALUE in per cent of the sum of all values of PROFILE. */
double profile_share(const struct profile *profile, uint64_t value);

/*
 * Return true if the time of the garbage collector is known. It is not known in two cases: if no
 * sample was found in the collector, as in a program that lacks the names of the collector's
 * functions; or if it is unknown for more than 1 % of the samples whether they were in the
 * collector.
 */
bool profile_knows_collector(const struct profile *profile);

/* Return "cpu", "wait", "alloc" or "gc". */
const char *profile_kind_name(enum profile_kind kind);
/* Return why a profile of KIND has no samples: "no thread ran at the time of a sample". */
const char *profile_empty_text(enum profile_kind kind);

/* Return true if profiles of KIND consist of samples that are taken at a rate. */
static inline bool profile_is_sampled(enum profile_kind kind)
{
	return kind == PROFILE_CPU || kind == PROFILE_GC;
}

/* Merge stacks that have the same functions, whatever their lines are. */
void profile_merge_lines(struct profile *profile);

/* Which frame of a stack its value belongs to: see profile_site_of(). */
enum profile_sites {
	SITES_LEAF, /* the innermost function */
	SITES_OWN,  /* the innermost own function (unwind/own_frames.h) if the stack has one */
};

/* The frame that the value of a stack belongs to. */
struct profile_site {
	size_t frame; /* index in the frames of the stack */
	/*
	 * Index of the innermost function, which waits, which allocates, or for which the collector
	 * runs. Frames of the mechanism (the kernel that waits, the runtime that allocates) do not
	 * count unless the stack has no others. Equal to `frame` for SITES_LEAF.
	 */
	size_t leaf;
};

struct profile_site profile_site_of(const struct profile *profile, size_t stack,
				    enum profile_sites sites);

/* A function, with its values in all stacks. */
struct profile_function {
	const char *function;
	const struct named_frame *frame; /* one of the frames of the function */
	/*
	 * With SITES_OWN, a frame of the innermost function of the stacks of `self`; NULL: the
	 * innermost function is this one, or `self` is 0. A function has a row for each `via`.
	 */
	const struct named_frame *via;
	/* sum of the values of the stacks whose site is this function */
	uint64_t self;
	/* sum of the values of the stacks that contain this function; equal in all its rows */
	uint64_t total;
	size_t depth; /* the least number of callers that a stack has for this function */
};

/*
 * List the functions of the stacks of THREAD or, if THREAD is NULL, of all stacks of PROFILE, the
 * largest `self` first, then the largest `total`, then the outermost one. The caller frees
 * *FUNCTIONS.
 */
int profile_functions(struct ocp_ctx *ctx, const struct profile *profile,
		      const struct profile_thread *thread, enum profile_sites sites,
		      struct profile_function **functions, size_t *n);

#endif

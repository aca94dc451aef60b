/* SPDX-License-Identifier: MIT */
/* A profile: named stacks and their values. The writers of all formats take it. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "unwind/frame_names.h"
#include "profile/profiler.h"

struct named_stack {
	const struct named_frame **frames; /* outermost first, with inlined and kernel frames */
	size_t n;
	uint64_t samples;
	uint64_t value; /* nanoseconds on the CPU, or of waiting; allocated words */
	/* With has_heap: allocated blocks; words and blocks that are alive. */
	uint64_t objects, live, live_objects;
};

/* CPU time by the samples of PROFILE_CPU and PROFILE_GC: of everything, and of the collector. */
struct collector_time {
	uint64_t all, collector, minor, major; /* collector: some is neither minor nor major */
	uint64_t samples, doubtful;	       /* doubtful: lack callers; may be the collector */
};

struct profile {
	enum profile_kind kind;
	struct collector_time collector;
	unsigned int hz;	    /* samples per second; PROFILE_CPU */
	uint64_t start_ns;	    /* since 1970 */
	uint64_t duration_ns;	    /* for which samples were taken */
	bool has_heap;		    /* made by Gc.Memprof; stacks have more members */
	bool is_live;		    /* with has_heap: readers show live words first */
	uint64_t word_period;	    /* with has_heap: words for one sample */
	char *comments;		    /* lines for readers, of malloc; NULL: none */
	struct named_stack *stacks; /* the largest value first; each list of places once */
	size_t n;
	uint64_t samples, value; /* of all stacks */
	size_t processes;	 /* that were profiled; 0: not known */
	size_t always_waiting;	 /* threads that waited for all of the time; of PROFILE_WAITS */
	uint64_t truncated;	 /* samples whose callers are not all known */
	uint64_t lost;		 /* samples that are not in the stacks */
	uint64_t lost_otherwise; /* of these, samples whose reasons are not below */
	/* Words of small blocks, for PROFILE_WORDS; 0: at most 1 % of all words. */
	uint64_t unsure_words;	/* error bound of the words counted */
	uint64_t missing_words; /* that are in no stack, since no minor heap ran out */
	uint64_t large_ns;	/* how long large blocks were sampled; 0: all of the time */
	struct stack_losses stack_losses; /* reasons of `truncated` and `lost` */
	struct profile_losses losses;	  /* more reasons of `lost` */
};

/*
 * Make PROFILE: name the stacks of READING, and merge stacks of the same functions and lines. The
 * frames are valid as long as NAMES. The caller sets the times.
 */
int profile_make(struct ocp_ctx *ctx, const struct profile_reading *reading,
		 struct frame_names *names, const struct profiler_spec *spec,
		 struct profile *profile);
void profile_free(struct profile *profile);

/* Merge stacks of the same functions and lines, and sort the stacks. */
void profile_merge(struct profile *profile);

/*
 * Compare functions by name. Functions of OCaml and of C with the same name are equal, since the
 * folded form does not distinguish them; functions of the kernel are different.
 */
int profile_compare_frames(const struct named_frame *a, const struct named_frame *b);
int profile_compare_stacks(const struct named_stack *a, const struct named_stack *b);

/* Are callers missing in STACK? */
static inline bool profile_stack_is_truncated(const struct named_stack *stack)
{
	return stack->n && stack->frames[0]->kind == FRAME_TRUNCATED;
}

/* VALUE in per cent of all values of PROFILE. */
double profile_share(const struct profile *profile, uint64_t value);

/*
 * Is the time of the collector known? It is not if the collector was never seen, since a program
 * may lack the names of its functions, nor if more than 1% of the samples may or may not belong to
 * it.
 */
bool profile_knows_collector(const struct profile *profile);

/* "cpu", "wait", "alloc", "gc" */
const char *profile_kind_name(enum profile_kind kind);

/* Are profiles of KIND made of samples that are taken at a rate? */
static inline bool profile_is_sampled(enum profile_kind kind)
{
	return kind == PROFILE_CPU || kind == PROFILE_GC;
}

/*
 * Replace successive frames of the same function by one, so that stacks that differ only in the
 * depth of a recursion become one.
 */
void profile_fold_recursion(struct profile *profile);

/* Merge stacks of the same functions, whatever their lines are. */
void profile_merge_lines(struct profile *profile);

/* One function in all stacks. */
struct profile_function {
	const char *function;
	const struct named_frame *frame; /* one of its frames */
	uint64_t self;			 /* value of the stacks in which it is the innermost */
	uint64_t total;			 /* value of the stacks that it is in */
};

/* List the functions of PROFILE, the largest `self` first. The caller frees *FUNCTIONS. */
int profile_functions(struct ocp_ctx *ctx, const struct profile *profile,
		      struct profile_function **functions, size_t *n);

#endif

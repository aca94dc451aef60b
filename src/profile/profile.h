/* SPDX-License-Identifier: MIT */
/* A profile: named stacks, and how much belongs to each. The writers of all formats read it. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "unwind/frame_names.h"
#include "profile/profiler.h"

struct named_stack {
	const struct named_frame *
		*frames; /* the outermost first, with inlined ones and the kernel's */
	size_t n;
	uint64_t samples;
	uint64_t value; /* nanoseconds on the CPU, or of waiting; words that were allocated */
	/* With has_heap: blocks that were allocated, words and blocks that are alive. */
	uint64_t objects, live, live_objects;
};

/* CPU time in samples, of PROFILE_CPU and PROFILE_GC: all of it, and that in the collector. */
struct collector_time {
	uint64_t all, collector, minor,
		major; /* of the collector, some is neither minor nor major */
	uint64_t samples,
		doubtful; /* doubtful: samples that lack callers, which may be the collector */
};

struct profile {
	enum profile_kind kind;
	struct collector_time collector;
	unsigned int hz;	    /* samples per second; PROFILE_CPU */
	uint64_t start_ns;	    /* since 1970 */
	uint64_t duration_ns;	    /* for which samples were taken */
	bool has_heap;		    /* made by Gc.Memprof, with more members of the stacks */
	bool is_live;		    /* with has_heap: readers show live words first */
	uint64_t word_period;	    /* with has_heap: words for one sample */
	char *comments;		    /* lines for readers, of malloc; NULL: none */
	struct named_stack *stacks; /* the largest value first; each list of functions once */
	size_t n;
	uint64_t samples, value; /* of all stacks */
	size_t processes;	 /* that were profiled; 0: not known */
	size_t always_waiting;	 /* threads that waited for all of the time; of PROFILE_WAITS */
	uint64_t truncated;	 /* samples whose callers are not all known */
	uint64_t lost;		 /* samples that are not in the stacks */
	uint64_t lost_otherwise; /* of them, those for reasons that the members below do not tell */
	/* Words of small blocks, of PROFILE_WORDS; 0: at most 1 % of all. */
	uint64_t unsure_words;	/* more or less */
	uint64_t missing_words; /* that are in no stack, since no minor heap ran out */
	uint64_t large_ns;	/* large blocks were sampled so long; 0: for all of the time */
	struct stack_losses stack_losses; /* why */
	struct profile_losses losses;	  /* the same */
};

/*
 * Name the stacks of READING. Stacks of the same functions and lines become one.
 * The frames exist as long as NAMES. The caller sets the times.
 */
int profile_make(struct ocp_ctx *ctx, const struct profile_reading *reading,
		 struct frame_names *names, const struct profiler_spec *spec,
		 struct profile *profile);
void profile_free(struct profile *profile);

/* Make stacks of the same frames one, and sort the stacks. */
void profile_merge(struct profile *profile);

/*
 * The order of functions by name. Functions of one name are the same in OCaml and in C, since the folded
 * form does not tell these apart; the kernel's are others.
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
 * Is it known what the collector takes? Not if it was never seen, since a program may lack the names of its
 * functions, nor if more than 1% of the samples may be its own or not.
 */
bool profile_knows_collector(const struct profile *profile);

/* "cpu", "wait", "alloc", "gc" */
const char *profile_kind_name(enum profile_kind kind);

/* Is it made of samples that are taken some times a second? */
static inline bool profile_is_sampled(enum profile_kind kind)
{
	return kind == PROFILE_CPU || kind == PROFILE_GC;
}

/*
 * Make calls of a function by itself one frame, so that stacks that differ only in the depth of a
 * recursion become one.
 */
void profile_fold_recursion(struct profile *profile);

/* Make stacks of the same functions one, whatever their lines are. */
void profile_merge_lines(struct profile *profile);

/* One function in all stacks. */
struct profile_function {
	const char *function;
	const struct named_frame *frame; /* one of its frames */
	uint64_t self;			 /* value of the stacks in which it is the innermost */
	uint64_t total;			 /* value of the stacks that it is in */
};

/* The functions of PROFILE, the largest `self` first. The caller frees *FUNCTIONS. */
int profile_functions(struct ocp_ctx *ctx, const struct profile *profile,
		      struct profile_function **functions, size_t *n);

#endif

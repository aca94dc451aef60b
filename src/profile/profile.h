/* SPDX-License-Identifier: MIT */
/* A profile: named stacks, and how much belongs to each. The writers of all formats read it. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stddef.h>
#include <stdint.h>
#include "profile/frame_names.h"
#include "profile/profiler.h"

struct named_stack {
	const struct named_frame *
		*frames; /* the outermost first, with inlined ones and the kernel's */
	size_t n;
	uint64_t samples;
	uint64_t value; /* nanoseconds on the CPU, or of waiting; words that were allocated */
};

struct profile {
	enum profile_kind kind;
	unsigned int hz;	    /* samples per second; PROFILE_CPU */
	uint64_t start_ns;	    /* since 1970 */
	uint64_t duration_ns;	    /* for which samples were taken */
	struct named_stack *stacks; /* the largest value first; each list of functions once */
	size_t n;
	uint64_t samples, value;      /* of all stacks */
	uint64_t truncated;	      /* samples whose callers are not all known */
	uint64_t lost;		      /* samples that are not in the stacks */
	struct profile_losses losses; /* why */
};

/*
 * Name the stacks of READING. Stacks of the same functions become one, whatever their instructions are.
 * The frames exist as long as NAMES. The caller sets the times.
 */
int profile_make(struct ocp_ctx *ctx, const struct profile_reading *reading,
		 struct frame_names *names, const struct profiler_spec *spec,
		 struct profile *profile);
void profile_free(struct profile *profile);

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

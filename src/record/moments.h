/* SPDX-License-Identifier: MIT */
/*
 * Waits and CPU samples of processes as events of a trace. Each has a stack, whose number is kept
 * in the event; the stack gets its names when the trace is written.
 */
#ifndef RECORD_MOMENTS_H
#define RECORD_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "record/trace.h"

struct moments_spec {
	const pid_t *pids;
	size_t n_pids;
	const char *exe; /* also processes that begin to execute this file; NULL: none */
	unsigned int hz; /* samples per second and CPU; 0: none */
	bool has_waits;
	/* stop the samples, or the waits, if they take more than this share of a core */
	double most;
};

struct moments;

/*
 * Load the BPF programs. Returns 0 or a negative errno; there is nothing to close after an error.
 */
int moments_open(struct ocp_ctx *ctx, const struct moments_spec *spec, struct moments **out);
int moments_start(struct moments *moments);
/* Free MOMENTS, which may be NULL. */
void moments_close(struct moments *moments);

/*
 * Add the events since the last call to TRACE. Call this several times per second. Returns 0 or a
 * negative errno.
 */
int moments_take(struct moments *moments, struct trace *trace);

/* Add the waits that have not ended yet. Call this once, after the last moments_take(). */
int moments_take_open(struct moments *moments, struct trace *trace);

/*
 * Read the mappings of processes that have loaded code, and compare the cost with the limit. Call
 * this about once a second. A warning is logged if the waits or the samples are stopped because of
 * their cost.
 */
int moments_refresh(struct moments *moments);

/*
 * Return a text that says which events are missing because of their cost, and from when on; "" if
 * none are. It is valid until the next moments_refresh().
 */
const char *moments_gaps(const struct moments *moments);

/* Set *N to the number of waits and samples that were lost. Returns 0 or a negative errno. */
int moments_n_lost(struct moments *moments, uint64_t *n);

/* Read the stacks of the events so far. Call this before moments_describe(). */
int moments_read_stacks(struct moments *moments);

/*
 * Describe the stack number STACK of an event of CATEGORY: *NAME is what the thread waits for, or
 * the function that runs; *TEXT has a line for each frame, the innermost first. The texts belong to
 * the caller. Returns 0, or -ENOENT if the stack is not known, or -ENOMEM.
 */
int moments_describe(struct moments *moments, enum trace_category category, uint64_t stack,
		     char **name, char **text);

#endif

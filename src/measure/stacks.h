/* SPDX-License-Identifier: MIT */
/* The stacks of hits: who calls the probes that a meter counts, times or prints. */
#ifndef MEASURE_STACKS_H
#define MEASURE_STACKS_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"
#include "unwind/frame_names.h"

enum { MAX_STACK_DEPTH = WALK_MAX_DEPTH };

/*
 * Frames, the innermost one first. If callers are missing, the last frame is of kind
 * FRAME_TRUNCATED. The frames exist as long as the meter.
 */
struct named_frames {
	const struct named_frame **list;
	size_t n;
};

/* The hits of a probe at one stack, or the times of a pair that ended there. */
struct stack_row {
	const char *probe; /* NULL: a pair */
	size_t pair;	   /* its index in the sample */
	uint64_t n, sum_ns, max_ns;
	struct named_frames frames;
};

/*
 * Rows of probes, by name, then rows of pairs. The rows of a probe are sorted by hits, those of a
 * pair by their sum.
 */
struct stack_rows {
	struct stack_row *list;
	size_t n;
	uint64_t walks;	    /* stacks that were walked */
	uint64_t truncated; /* of these: stacks that lack callers */
	uint64_t lost; /* hits and times without a stack: no room for it, or its hash is taken */
	uint64_t not_counted; /* hits and times that are in no row: no room */
};

/*
 * Walk the stacks of hits, with DEPTH frames at most, up to MAX_STACK_DEPTH. Call it before
 * ocp_meter_open().
 */
void meter_walk_stacks(struct ocp_meter *meter, unsigned int depth);

/* The caller frees ROWS with stack_rows_free(), also on failure. */
int meter_read_stacks(struct ocp_meter *meter, struct stack_rows *rows);
void stack_rows_free(struct stack_rows *rows);

/* Name the frames of HIT; none if stacks are not walked. The caller frees FRAMES->list. */
int meter_name_hit(struct ocp_meter *meter, const struct ocp_hit *hit, struct named_frames *frames);

#endif

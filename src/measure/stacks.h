/* SPDX-License-Identifier: MIT */
/*
 * The stacks of hits, which show who calls the probes that a meter counts, times or prints. A meter
 * walks stacks if its request has a stack_depth.
 */
#ifndef MEASURE_STACKS_H
#define MEASURE_STACKS_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"
#include "unwind/frame_names.h"

enum { MAX_STACK_DEPTH = WALK_MAX_DEPTH };

/*
 * Frames, the innermost frame first. If callers are missing, the last frame is of kind
 * FRAME_TRUNCATED. The frames are valid as long as the meter exists.
 */
struct named_frames {
	const struct named_frame **list;
	size_t n;
};

/* The hits of a probe with one stack, or the times of those pairs whose stop had this stack. */
struct stack_row {
	const char *probe; /* NULL: the row is of a pair */
	size_t pair;	   /* index of the pair in the sample */
	uint64_t n, sum_ns, max_ns;
	struct named_frames frames;
};

/*
 * First the rows of probes, sorted by the probe's name, then the rows of pairs. The rows of one
 * probe are sorted by hits, the rows of one pair by the sum of their times.
 */
struct stack_rows {
	struct stack_row *list;
	size_t n;
	uint64_t walks;	    /* stacks that were walked */
	uint64_t truncated; /* how many of `walks` lack callers */
	/*
	 * Hits and times whose stack could not be stored, because there was no room or another
	 * stack has the same hash.
	 */
	uint64_t lost;
	/* hits and times that are in no row, because there was no room for another row */
	uint64_t not_counted;
	/* calls that were not counted, because it is unknown whether they are outermost */
	uint64_t unknown_calls;
};

/*
 * Read the hits and times by stack. The caller frees ROWS with stack_rows_free(), also on failure.
 */
int meter_read_stacks(struct ocp_meter *meter, struct stack_rows *rows);
void stack_rows_free(struct stack_rows *rows);

/*
 * Set FRAMES to the named frames of HIT, or to no frames if stacks are not walked. The caller frees
 * FRAMES->list.
 */
int meter_name_hit(struct ocp_meter *meter, const struct ocp_hit *hit, struct named_frames *frames);

#endif

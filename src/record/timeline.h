/* SPDX-License-Identifier: MIT */
/*
 * The events of a trace, arranged for a viewer: in the order of time, slices as beginnings and ends
 * that nest.
 *
 * Viewers demand that the slices of one row nest: a slice ends before the slices that began earlier
 * in the same row. Requests overlap, and so do calls in fibres of one thread. So each track has as
 * many lanes as necessary: a slice is in the first lane where it nests. The lanes of groups have no
 * nested slices, since a request is no part of another one.
 */
#ifndef RECORD_TIMELINE_H
#define RECORD_TIMELINE_H

#include "record/trace.h"

/* A slice that has not ended has no TIMELINE_END. */
enum timeline_kind { TIMELINE_BEGIN, TIMELINE_END, TIMELINE_INSTANT, TIMELINE_COUNTER };

struct timeline_item {
	int64_t ns; /* CLOCK_MONOTONIC */
	enum timeline_kind kind;
	uint32_t lane;
	size_t place; /* of the event, for trace_read() */
};

struct timeline_lane {
	uint32_t track;
	uint32_t number; /* the number of the lane in its track, from 0 */
};

struct timeline {
	struct timeline_item *items;
	size_t n_items;
	struct timeline_lane *lanes;
	size_t n_lanes;
};

/*
 * Arrange the events of TRACE that ended at SINCE_NS or later. The timeline is valid until the next
 * event is added to TRACE. Returns 0 or -ENOMEM. The caller frees the timeline, also after an
 * error.
 */
int timeline_make(struct ocp_ctx *ctx, const struct trace *trace, int64_t since_ns,
		  struct timeline *timeline);
void timeline_free(struct timeline *timeline);

#endif

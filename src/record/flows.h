/* SPDX-License-Identifier: MIT */
/*
 * Flows: the arrows that a viewer draws from one event of a request to the next one, across
 * threads.
 *
 * A request is a slice of a group (record/trace.h) with a key: from its start to its stop. What
 * belongs to it are the events of its process with the same key and the same value in this time,
 * also slices of other groups: the hits of its start and its stop, and of the probes between them,
 * on the tracks of the threads that were in them. In the order of time, one flow leads from each of
 * these events to the next one, first from the slice. So each flow has two ends.
 */
#ifndef RECORD_FLOWS_H
#define RECORD_FLOWS_H

#include "record/timeline.h"

struct flow_ends {
	uint64_t in, out; /* the numbers of the flows that end, and begin, at an item; 0: none */
};

/*
 * Set *ENDS to an array with an element for each item of TIMELINE, which is one of TRACE. Flows are
 * numbered from 1. The caller frees *ENDS, also after an error. Returns 0 or -ENOMEM.
 */
int flows_find(struct ocp_ctx *ctx, const struct trace *trace, const struct timeline *timeline,
	       struct flow_ends **ends);

#endif

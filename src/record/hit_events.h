/* SPDX-License-Identifier: MIT */
/*
 * The hits of a meter as events of a trace: a printed hit is an instant on the track of its thread,
 * a pair or a call is a slice, also one that has not ended (measure/open_pairs.h). Pairs that are
 * matched by an argument overlap, so each of these pairs has a group.
 */
#ifndef RECORD_HIT_EVENTS_H
#define RECORD_HIT_EVENTS_H

#include "ocaml_probes.h"
#include "record/trace.h"

/*
 * Add HIT to TRACE. START_NS is the time of CLOCK_MONOTONIC at which the time of hits is 0. Returns
 * 0 or -ENOMEM.
 */
int hit_events_add(struct trace *trace, int64_t start_ns, const struct ocp_hit *hit);

/*
 * Set *NUMBER to the track of KIND with NAME of process PID, as trace_track() does. The track of
 * the process is made before it. Returns 0 or -ENOMEM.
 */
int hit_events_track(struct trace *trace, enum trace_track_kind kind, pid_t pid, pid_t tid,
		     const char *name, int64_t named_ns, uint32_t *number);

/*
 * Make the track of process PID, with the name of its program, if it does not exist. Call this
 * while the process runs: later, its program is not known. Returns a negative errno after an error.
 */
int hit_events_process(struct trace *trace, pid_t pid);

#endif

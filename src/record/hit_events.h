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
 * The arguments by which pairs are matched. Each pair has one: the hits of START and of STOP with
 * the same value belong to one request, and so do the hits of other probes that have an argument of
 * this name.
 */
struct hit_key {
	const char *start, *stop;
	const char *name;    /* NULL: the argument is known only by its number */
	unsigned int number; /* used if there is no name */
};

struct hit_keys {
	const struct hit_key *list;
	size_t n;
};

/*
 * Add HIT to TRACE. KEYS say which argument tells to which request it belongs. START_NS is the time
 * of CLOCK_MONOTONIC at which the time of hits is 0. Returns 0 or -ENOMEM.
 */
int hit_events_add(struct trace *trace, const struct hit_keys *keys, int64_t start_ns,
		   const struct ocp_hit *hit);

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

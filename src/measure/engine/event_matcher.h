/* SPDX-License-Identifier: MIT */
/*
 * Makes records of printed hits and of pairs from the events that a process has written (inside
 * records of change/inside/inside.h): what BPF programs do at a hit, a tool does here, later. The
 * rules of pairing are those of bpf/measure_pairs.bpf.h and bpf/measure_frames.bpf.h.
 */
#ifndef MEASURE_ENGINE_EVENT_MATCHER_H
#define MEASURE_ENGINE_EVENT_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "change/inside/inside.h"
#include "measure/engine/engine.h"

/* Where a call is, as in struct slow_call; the last three only if it is on a stack of OCaml 5. */
enum event_call_arg { EVENT_RETURN_ADDRESS, EVENT_STACK, EVENT_PARENT, EVENT_STATE };

/*
 * What the events of a point mean. Of N sites of an engine, site number I has the points I, and
 * I + N for the hits that the filter rejects.
 */
struct event_point {
	uint32_t site;
	/* its starts do not count, but their stops find them: see enter_frame() of bpf/ */
	bool is_rejected;
	uint32_t first_role, n_roles; /* in the roles of the engine */
	bool is_printed, is_fibre;    /* is_fibre: the frame is on a stack of OCaml 5 */
	uint8_t n_args, n_left_out;   /* arguments of a record */
	/* the beginning of a call: the arguments are those of enum event_call_arg */
	bool has_call;
	/* by argument, and for each role by key: its place in the event's arguments; -1: none */
	int8_t places[16], keys[8];
};

/*
 * inside_places.c: set the points of SITE, which is number I of N sites, in POINTS to what its
 * events mean, and EVENT to what they record. ROLES are the site's roles, and ARGS its arguments
 * (NULL: none). Returns false if a key is at a place that the engine cannot read.
 */
bool event_points_make(const struct engine_site *site, const struct engine_role *roles,
		       const struct site_args *args, size_t i, size_t n, struct event_point *points,
		       struct inside_event *event);

struct event_matcher;

/*
 * ROLES, and the N_POINTS points at POINTS, must outlive the result; POINTS may be filled in later.
 * DEPTH is as in measure_request. PID is the process, and INSIDE its counters.
 */
int event_matcher_new(struct ocp_ctx *ctx, const struct engine_role *roles, size_t n_pairs,
		      unsigned int depth, const struct event_point *points, size_t n_points,
		      struct inside *inside, pid_t pid, struct event_matcher **out);
void event_matcher_free(struct event_matcher *matcher);

/* See engine_ops.print: read the events of the process, and pass records. */
int event_matcher_print(struct event_matcher *matcher, bool all, engine_print_fn fn, void *data);

/* Add what was counted and timed, and what was lost, to READING. */
void event_matcher_read(struct event_matcher *matcher, struct engine_reading *reading);

/* Add to OPENS what has begun and not ended. The caller frees OPENS, also after an error. */
int event_matcher_read_open(struct event_matcher *matcher, struct engine_opens *opens);

#endif

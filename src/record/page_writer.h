/* SPDX-License-Identifier: MIT */
/*
 * Write a trace as a single HTML file that needs no other file: the timeline, which the user can
 * zoom and search. The page (page/page.html) gets its data as JSON:
 *
 *	{ "events": [...], "trace": {...}, "categories": [...], "tracks": [...], "lanes": [...],
 *	  "names": [...], "stacks": [...], "texts": [...], "shapes": [...], "flows": [...] }
 *
 * events      numbers, for one event after the other, in the order of their beginnings:
 *	       - the lane
 *	       - the time since the event before it, in nanoseconds
 *	       - the duration; for a counter its value; for an instant 0; for a slice that has not
 *	         ended -1
 *	       - 3 * category + kind, see enum trace_category and enum trace_event_kind
 *	       - the name; the numbers behind the last name are those of stacks
 *	       - the shape of the arguments, and the value of each argument
 * trace       n, the number of events; start_ns, the time of the first one (CLOCK_MONOTONIC, as
 *	       text) and start_ms (the same as Unix time); length_ns, the time from there to the
 *	       end of the recording; tool, why, lost, dropped: see record/source.h; left_out:
 *	       events that are missing because the page would be too large
 * tracks      [kind, pid, tid, name]; null: not in use
 * lanes       [number of the track, number of the lane within the track]
 * stacks      [name, text]
 * shapes      [name, form, ...] for each argument. The form tells what the value is: 0 a number, 1
 *	       the number of a text, 2 the number of a text that is a number which JavaScript would
 *	       round. Shape 0 is that of an event without arguments.
 * flows       for each flow (record/flows.h) the number of the event from which it leads, and of
 *	       that to which it leads; 0 is the first event. Flows of events that are left out are
 *	       missing.
 */
#ifndef RECORD_PAGE_WRITER_H
#define RECORD_PAGE_WRITER_H

#include <stdio.h>
#include "record/source.h"

/* The most events that a page has. If there are more, the oldest ones are left out. */
enum { PAGE_MOST_EVENTS = 2000000 };

/*
 * Write the struct trace_source DATA to TO. Returns 0 or a negative errno, with a message in CTX.
 */
int timeline_page_write(struct ocp_ctx *ctx, const void *data, FILE *to);

#endif

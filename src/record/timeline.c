// SPDX-License-Identifier: MIT
#include "record/timeline.h"

#include <stdlib.h>

#include "base/array.h"

/* The end of a slice that has not ended. */
static const int64_t NEVER_NS = INT64_MAX;

/* An event, with what is needed to arrange it. */
struct picked {
	size_t place;
	size_t order; /* the number of the event in the trace */
	uint32_t track;
	enum trace_event_kind kind;
	int64_t begin_ns, end_ns;
};

/* A lane while slices are put into it: the slices that have begun and not ended. */
struct open_lane {
	uint32_t number; /* in timeline->lanes */
	const struct picked **open;
	size_t n_open;
};

struct arrangement {
	const struct trace *trace;
	struct timeline *timeline;
	struct picked *picked;
	size_t n_picked;
	struct open_lane *lanes; /* those of the current track */
	size_t n_lanes;
};

static int compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/*
 * By track, then by beginning; of slices that begin together, the longest first. The clock has
 * steps of some nanoseconds, so several events can have the same time.
 */
static int compare_picked(const void *a, const void *b)
{
	const struct picked *x = a, *y = b;
	int order = compare(x->track, y->track);

	if (!order)
		order = compare(x->begin_ns, y->begin_ns);
	if (!order)
		order = compare(y->end_ns, x->end_ns);
	if (!order)
		order = (x->kind != TRACE_SLICE) - (y->kind != TRACE_SLICE);
	if (!order && x->kind != TRACE_SLICE)
		return compare((int64_t)x->order, (int64_t)y->order);
	/* Of two calls with the same times, the one that ended last is the outer one. */
	return order ? order : compare((int64_t)y->order, (int64_t)x->order);
}

static bool pick_events(struct arrangement *a, int64_t since_ns)
{
	struct trace_arg args[TRACE_MAX_ARGS];
	size_t place = TRACE_START;

	for (size_t i = 0; trace_next(a->trace, &place); i++) {
		struct trace_event event;
		struct picked *picked;

		trace_read(a->trace, place, args, &event);
		if (!event.is_open && event.begin_ns + event.duration_ns < since_ns)
			continue;
		picked = array_add(a->picked, a->n_picked);
		if (!picked)
			return false;
		*picked = (struct picked){ .place = place,
					   .order = i,
					   .track = event.track,
					   .kind = event.kind,
					   .begin_ns = event.begin_ns,
					   .end_ns = event.is_open
							     ? NEVER_NS
							     : event.begin_ns + event.duration_ns };
	}
	return true;
}

static bool add_item(struct arrangement *a, const struct picked *picked, uint32_t lane,
		     enum timeline_kind kind)
{
	struct timeline_item *item = array_add(a->timeline->items, a->timeline->n_items);

	if (!item)
		return false;
	*item = (struct timeline_item){ .ns = kind == TIMELINE_END ? picked->end_ns
								   : picked->begin_ns,
					.kind = kind,
					.lane = lane,
					.place = picked->place };
	return true;
}

static struct open_lane *add_lane(struct arrangement *a, uint32_t track)
{
	struct timeline_lane *lane = array_add(a->timeline->lanes, a->timeline->n_lanes);
	struct open_lane *open = lane ? array_add(a->lanes, a->n_lanes) : NULL;

	if (!open)
		return NULL;
	*lane = (struct timeline_lane){ .track = track, .number = (uint32_t)a->n_lanes - 1 };
	*open = (struct open_lane){ .number = (uint32_t)a->timeline->n_lanes - 1 };
	return open;
}

/* End the slices of LANE that end at NS or before. A slice that has not ended gets no end. */
static bool end_slices(struct arrangement *a, struct open_lane *lane, int64_t ns)
{
	while (lane->n_open && lane->open[lane->n_open - 1]->end_ns <= ns) {
		lane->n_open--;
		if (lane->open[lane->n_open]->end_ns != NEVER_NS &&
		    !add_item(a, lane->open[lane->n_open], lane->number, TIMELINE_END))
			return false;
	}
	return true;
}

/* Return true if PICKED fits into LANE, in which slices have ended up to its beginning. */
static bool has_place_for(const struct open_lane *lane, const struct picked *picked, bool may_nest)
{
	return !lane->n_open ||
	       (may_nest && picked->end_ns <= lane->open[lane->n_open - 1]->end_ns);
}

static bool place_slice(struct arrangement *a, const struct picked *picked)
{
	const bool may_nest = trace_track_get(a->trace, picked->track)->kind != TRACE_GROUP;
	struct open_lane *lane = NULL;
	const struct picked **slot;

	for (size_t i = 0; !lane && i < a->n_lanes; i++) {
		if (!end_slices(a, &a->lanes[i], picked->begin_ns))
			return false;
		if (has_place_for(&a->lanes[i], picked, may_nest))
			lane = &a->lanes[i];
	}
	if (!lane)
		lane = add_lane(a, picked->track);
	slot = lane ? array_add(lane->open, lane->n_open) : NULL;
	if (!slot)
		return false;
	*slot = picked;
	return add_item(a, picked, lane->number, TIMELINE_BEGIN);
}

static bool place_event(struct arrangement *a, const struct picked *picked)
{
	if (picked->kind == TRACE_SLICE)
		return place_slice(a, picked);
	if (!a->n_lanes && !add_lane(a, picked->track))
		return false;
	return add_item(a, picked, a->lanes[0].number,
			picked->kind == TRACE_INSTANT ? TIMELINE_INSTANT : TIMELINE_COUNTER);
}

/* End all slices of the current track, and forget its lanes. */
static bool end_track(struct arrangement *a)
{
	bool is_done = true;

	for (size_t i = 0; i < a->n_lanes; i++) {
		is_done = is_done && end_slices(a, &a->lanes[i], INT64_MAX);
		free(a->lanes[i].open);
	}
	free(a->lanes);
	a->lanes = NULL;
	a->n_lanes = 0;
	return is_done;
}

/*
 * By time. At one time, first the items of groups, so that a request begins before its hits. The
 * items of a lane keep their order: they are at increasing addresses until the sort, and `place` is
 * not their order. So the order is taken from a copy of the index.
 */
struct sorted {
	struct timeline_item item;
	size_t index;
	bool is_of_group;
};

static int compare_sorted(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	int order = compare(x->item.ns, y->item.ns);

	if (!order)
		order = y->is_of_group - x->is_of_group;
	return order ? order : compare((int64_t)x->index, (int64_t)y->index);
}

static bool sort_items(const struct trace *trace, struct timeline *timeline)
{
	struct sorted *sorted = calloc(timeline->n_items + 1, sizeof(*sorted));

	if (!sorted)
		return false;
	for (size_t i = 0; i < timeline->n_items; i++)
		sorted[i] = (struct sorted){
			.item = timeline->items[i],
			.index = i,
			.is_of_group =
				trace_track_get(trace,
						timeline->lanes[timeline->items[i].lane].track)
					->kind == TRACE_GROUP,
		};
	qsort(sorted, timeline->n_items, sizeof(*sorted), compare_sorted);
	for (size_t i = 0; i < timeline->n_items; i++)
		timeline->items[i] = sorted[i].item;
	free(sorted);
	return true;
}

int timeline_make(struct ocp_ctx *ctx, const struct trace *trace, int64_t since_ns,
		  struct timeline *timeline)
{
	struct arrangement a = { .trace = trace, .timeline = timeline };
	bool is_done;

	*timeline = (struct timeline){ 0 };
	is_done = pick_events(&a, since_ns);
	if (a.n_picked)
		qsort(a.picked, a.n_picked, sizeof(*a.picked), compare_picked);
	for (size_t i = 0; is_done && i < a.n_picked; i++) {
		if (i && a.picked[i].track != a.picked[i - 1].track)
			is_done = end_track(&a);
		is_done = is_done && place_event(&a, &a.picked[i]);
	}
	is_done = end_track(&a) && is_done && sort_items(trace, timeline);
	free(a.picked);
	return is_done ? 0 : ctx_no_memory(ctx);
}

void timeline_free(struct timeline *timeline)
{
	free(timeline->items);
	free(timeline->lanes);
	*timeline = (struct timeline){ 0 };
}

// SPDX-License-Identifier: MIT
/* What the events of a site record, and where the engine `inside` reads it. */
#include "measure/engine/event_matcher.h"
#include "measure/engine/inside_filters.h"
#include "program/program.h"

enum { R14 = 14 };

/* Return the number of PLACE in the arguments of EVENT, and add it if necessary; -1: no room. */
static int8_t place_in_event(struct inside_event *event, const struct inside_place *place)
{
	for (uint32_t i = 0; i < event->n_args; i++)
		if (event->args[i].kind == place->kind && event->args[i].number == place->number)
			return (int8_t)i;
	if (event->n_args == INSIDE_EVENT_ARGS)
		return -1;
	event->args[event->n_args] = *place;
	return (int8_t)event->n_args++;
}

/* Give EVENT the keys of the ROLES of POINT. Return false if one cannot be read. */
static bool place_keys(const struct site_args *args, const struct engine_role *roles,
		       struct event_point *point, struct inside_event *event)
{
	struct inside_place place;

	for (uint32_t i = 0; i < point->n_roles; i++) {
		point->keys[i] = -1;
		if (!roles[i].is_keyed)
			continue;
		if (inside_place_of(&args->args[roles[i].key_arg], &place))
			point->keys[i] = place_in_event(event, &place);
		if (point->keys[i] < 0)
			return false;
	}
	return true;
}

/*
 * Give EVENT those arguments of POINT that the engine can read. In a window of a function, which is
 * behind its entry, only registers are as they were there.
 */
static void place_arguments(const struct site_args *args, bool is_window, struct event_point *point,
			    struct inside_event *event)
{
	struct inside_place place;

	point->n_args = (uint8_t)args->n;
	point->n_left_out = (uint8_t)args->n_left_out;
	for (uint32_t i = 0; i < args->n; i++)
		point->places[i] = inside_place_of(&args->args[i], &place) &&
						   !(is_window && place.kind == INSIDE_STACK)
					   ? place_in_event(event, &place)
					   : -1;
}

/* Let EVENT record where the call is that begins: see enum event_call_arg. */
static void place_call(const struct event_point *point, int32_t depth, struct inside_event *event)
{
	event->args[EVENT_RETURN_ADDRESS] = (struct inside_place){ INSIDE_STACK, depth };
	event->args[EVENT_STATE] = (struct inside_place){ INSIDE_REGISTER, R14 };
	event->args[EVENT_STACK] = (struct inside_place){ .kind = INSIDE_FIBER };
	event->args[EVENT_PARENT] = (struct inside_place){ .kind = INSIDE_FIBER_PARENT };
	event->n_args = point->is_fibre ? EVENT_STATE + 1 : EVENT_RETURN_ADDRESS + 1;
}

bool event_points_make(const struct engine_site *site, const struct engine_role *roles,
		       const struct site_args *args, size_t i, size_t n, struct event_point *points,
		       struct inside_event *event)
{
	const bool is_window = site->site && site->site->window;
	const int32_t depth = is_window ? site->site->frame_depth : 0;
	struct event_point *point = &points[i];

	*point = (struct event_point){
		.site = (uint32_t)i,
		.first_role = site->first_role,
		.n_roles = site->n_roles,
		.is_printed = site->is_printed,
		.is_fibre = is_window && site->site->is_on_ocaml_stack,
	};
	*event = (struct inside_event){
		.point = (uint32_t)i,
		/* A stop does not depend on the filter, and must find a rejected start, too. */
		.has_rejected = site->is_filtered && site->n_roles,
		.rejected_point = (uint32_t)(n + i),
		.frame = { .kind = point->is_fibre ? INSIDE_FIBER_FRAME : INSIDE_FRAME,
			   .number = depth },
	};
	for (uint32_t j = 0; is_window && j < site->n_roles; j++)
		point->has_call |= roles[j].is_frame && !roles[j].is_stop && !roles[j].confirms;
	if (point->has_call)
		place_call(point, depth, event);
	if (args && !place_keys(args, roles, point, event))
		return false;
	if (args)
		place_arguments(args, is_window, point, event);
	points[n + i] = *point;
	points[n + i].is_rejected = true;
	points[n + i].is_printed = false;
	return true;
}

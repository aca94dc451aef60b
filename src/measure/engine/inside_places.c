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

/* Give EVENT the keys of the ROLES. Return false if there is no room for a key. */
static bool place_keys(const struct site_args *args, const struct engine_role *roles,
		       struct event_point *point, struct inside_event *event)
{
	struct inside_place place;

	for (uint32_t i = 0; i < point->n_roles; i++) {
		point->keys[i] = -1;
		if (!roles[i].is_keyed)
			continue;
		if (args && inside_place_of(&args->args[roles[i].key_arg], &place))
			point->keys[i] = place_in_event(event, &place);
		if (point->keys[i] < 0)
			return false;
	}
	return true;
}

/*
 * Give EVENT the arguments of POINT, a probe: first the keys of the ROLES, then others that the
 * engine can read. Return false if there is no room for a key.
 */
static bool place_arguments(const struct site_args *args, const struct engine_role *roles,
			    struct event_point *point, struct inside_event *event)
{
	struct inside_place place;

	if (!place_keys(args, roles, point, event))
		return false;
	point->n_args = (uint8_t)args->n;
	point->n_left_out = (uint8_t)args->n_left_out;
	for (uint32_t i = 0; i < args->n; i++)
		point->places[i] = inside_place_of(&args->args[i], &place)
					   ? place_in_event(event, &place)
					   : -1;
	return true;
}

bool event_point_make(const struct engine_site *site, const struct engine_role *roles,
		      const struct site_args *args, struct event_point *point,
		      struct inside_event *event)
{
	const bool is_window = site->site && site->site->window;
	const int32_t depth = is_window ? site->site->frame_depth : 0;

	*point = (struct event_point){
		.first_role = site->first_role,
		.n_roles = site->n_roles,
		.is_printed = site->is_printed,
		.is_fibre = is_window && site->site->is_on_ocaml_stack,
	};
	*event = (struct inside_event){ .frame.kind = INSIDE_FRAME };
	/* Behind a window of a function, its arguments can be anywhere, except a key. */
	if (!is_window)
		return !args || place_arguments(args, roles, point, event);
	event->frame = (struct inside_place){
		.kind = point->is_fibre ? INSIDE_FIBER_FRAME : INSIDE_FRAME,
		.number = depth,
	};
	for (uint32_t i = 0; i < site->n_roles; i++)
		point->has_call |= roles[i].is_frame && !roles[i].is_stop && !roles[i].confirms;
	if (!point->has_call)
		return place_keys(args, roles, point, event);
	event->args[EVENT_RETURN_ADDRESS] = (struct inside_place){ INSIDE_STACK, depth };
	event->args[EVENT_STATE] = (struct inside_place){ INSIDE_REGISTER, R14 };
	event->args[EVENT_STACK] = (struct inside_place){ .kind = INSIDE_FIBER };
	event->args[EVENT_PARENT] = (struct inside_place){ .kind = INSIDE_FIBER_PARENT };
	event->n_args = point->is_fibre ? EVENT_STATE + 1 : EVENT_RETURN_ADDRESS + 1;
	return place_keys(args, roles, point, event);
}

// SPDX-License-Identifier: MIT
/* Sets what a meter measures: one setting per call, or all of a struct measure_request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "measure/args/filter.h"
#include "measure/meter.h"
#include "measure/args/request.h"
#include "measure/slower.h"
#include "measure/stacks.h"

/* ---- part by part --------------------------------------------------------------------------- */

void ocp_meter_follow_children(struct ocp_meter *meter)
{
	meter->request.children = true;
}

/* Add ITEM to ITEMS and to SELECTION, the compiled form of ITEMS. */
static int add_item(struct ocp_meter *meter, struct items *items, struct selection *selection,
		    const struct item *item)
{
	int err = selection_add(meter->ctx, selection, item);

	if (!err && items_add(items, item->kind, item->text))
		err = ctx_no_memory(meter->ctx);
	return err;
}

static int meter_count_item(struct ocp_meter *meter, const struct item *item)
{
	return add_item(meter, &meter->request.counted, &meter->counted, item);
}

int ocp_meter_count(struct ocp_meter *meter, const char *name)
{
	return meter_count_item(meter, &(struct item){ item_kind_of_name(name), name });
}

int ocp_meter_count_regexp(struct ocp_meter *meter, const char *re)
{
	return meter_count_item(meter, &(struct item){ ITEM_PROBE_REGEXP, re });
}

int ocp_meter_count_all(struct ocp_meter *meter)
{
	return meter_count_item(meter, &(struct item){ ITEM_ALL_PROBES, NULL });
}

void ocp_meter_split(struct ocp_meter *meter, enum ocp_split split)
{
	meter->request.split = split;
}

static int append_pair(struct ocp_meter *meter, const char *start, const char *stop)
{
	if (meter->request.n_pairs == METER_MAX_PAIRS)
		return ctx_error(meter->ctx, -EINVAL,
				 "pair '%s,%s': too many pairs, the limit is %d", start,
				 stop ? stop : "", METER_MAX_PAIRS);
	return measure_request_add_pair(&meter->request, start, stop) ? ctx_no_memory(meter->ctx)
								      : 0;
}

/*
 * Return true if the request contains the pair of START and STOP. STOP "" stands for the calls of
 * the function START.
 */
static bool has_pair(const struct ocp_meter *meter, const char *start, const char *stop)
{
	for (size_t i = 0; i < meter->request.n_pairs; i++)
		if (strcmp(meter->request.pairs[i].start.text, start) == 0 &&
		    strcmp(request_pair_stop(&meter->request.pairs[i]), stop) == 0)
			return true;
	return false;
}

/* Time the calls of the functions that match the pattern START. */
static int time_matching(struct ocp_meter *meter, const char *start)
{
	for (size_t i = 0; i < meter->request.timed.n; i++)
		if (strcmp(meter->request.timed.list[i].text, start) == 0)
			return ctx_error(meter->ctx, -EINVAL, "'%s': timed twice", start);
	return add_item(meter, &meter->request.timed, &meter->timed,
			&(struct item){ ITEM_FUNCTION_REGEXP, start });
}

/* Time the calls of the function START: from its entry to its exits. */
static int time_calls(struct ocp_meter *meter, const char *start)
{
	switch (item_kind_of_name(start)) {
	case ITEM_FUNCTION:
	case ITEM_C_FUNCTION:
	case ITEM_GC_PHASE:
		break;
	case ITEM_LINE:
	case ITEM_FILE_LINES:
		return ctx_error(meter->ctx, -EINVAL,
				 "'%s': a line has no duration; name a pair of lines", start);
	case ITEM_NOTE:
		return ctx_error(meter->ctx, -EINVAL,
				 "'%s': a note has no duration; name a pair of notes", start);
	case ITEM_FUNCTION_REGEXP:
		return time_matching(meter, start);
	default:
		return ctx_error(meter->ctx, -EINVAL, "'%s': neither START,STOP nor a function",
				 start);
	}
	if (has_pair(meter, start, ""))
		return ctx_error(meter->ctx, -EINVAL, "'%s': timed twice", start);
	return append_pair(meter, start, NULL);
}

int ocp_meter_time(struct ocp_meter *meter, const char *start, const char *stop)
{
	if (!stop)
		return time_calls(meter, start);
	if (strcmp(start, stop) == 0)
		return ctx_error(meter->ctx, -EINVAL,
				 "pair '%s,%s': start and stop are the same probe", start, stop);
	if (has_pair(meter, start, stop))
		return ctx_error(meter->ctx, -EINVAL, "pair '%s,%s': given twice", start, stop);
	return append_pair(meter, start, stop);
}

int ocp_meter_set_depth(struct ocp_meter *meter, unsigned int depth)
{
	if (depth < 1 || depth > OCP_MAX_DEPTH)
		return ctx_error(meter->ctx, -EINVAL, "depth %u: not between 1 and %d", depth,
				 OCP_MAX_DEPTH);
	meter->request.depth = depth;
	return 0;
}

/* ---- arguments ------------------------------------------------------------------------------ */
/* Set *KEPT, a member of the request, to a copy of TEXT. */
static int keep_text(struct ocp_meter *meter, char **kept, const char *text)
{
	return measure_request_set_text(kept, text) ? ctx_no_memory(meter->ctx) : 0;
}

int ocp_meter_filter(struct ocp_meter *meter, const char *expr)
{
	struct arg_requests *requests = &meter->arg_requests;
	int err;

	if (requests->has_filter)
		return ctx_error(meter->ctx, -EINVAL, "filter '%s': only one filter is allowed",
				 expr);
	err = filter_parse(meter->ctx, expr, &requests->asked, &requests->filter,
			   &requests->filter_args);
	requests->has_filter = !err;
	return err ? err : keep_text(meter, &meter->request.filter, expr);
}

static int set_arg(struct ocp_meter *meter, const char *what, const char *text, int *arg,
		   char **kept)
{
	int number = filter_parse_arg(meter->ctx, text, &meter->arg_requests.asked);

	if (number < 0)
		return number;
	if (*arg >= 0)
		return ctx_error(meter->ctx, -EINVAL, "%s '%s': only one is allowed", what, text);
	*arg = number;
	return keep_text(meter, kept, text);
}

int ocp_meter_set_key(struct ocp_meter *meter, const char *arg)
{
	return set_arg(meter, "key", arg, &meter->arg_requests.key_arg, &meter->request.key);
}

int ocp_meter_histogram(struct ocp_meter *meter, const char *arg)
{
	return set_arg(meter, "histogram", arg, &meter->arg_requests.hist_arg,
		       &meter->request.hist);
}

/*
 * Group hits by the value of argument ARG, and the times of pairs by the value that ARG has at the
 * start of the pair: see by_value.h.
 */
static int meter_group_by(struct ocp_meter *meter, const char *arg)
{
	return set_arg(meter, "groups by", arg, &meter->arg_requests.by_arg, &meter->request.by);
}

static int meter_print_item(struct ocp_meter *meter, const struct item *item)
{
	return add_item(meter, &meter->request.printed, &meter->arg_requests.printed, item);
}

int ocp_meter_print(struct ocp_meter *meter, const char *name)
{
	return meter_print_item(meter, &(struct item){ item_kind_of_name(name), name });
}

int ocp_meter_print_regexp(struct ocp_meter *meter, const char *re)
{
	return meter_print_item(meter, &(struct item){ ITEM_PROBE_REGEXP, re });
}

void ocp_meter_set_print_limit(struct ocp_meter *meter, uint64_t hits)
{
	meter->request.print_limit = hits;
	meter->request.has_print_limit = true;
}

/* ---- by a request --------------------------------------------------------------------------- */

static int apply_arguments(const struct measure_request *request, struct ocp_meter *meter)
{
	int err = 0;

	for (size_t i = 0; !err && i < request->printed.n; i++)
		err = meter_print_item(meter, &request->printed.list[i]);
	if (!err && request->filter)
		err = ocp_meter_filter(meter, request->filter);
	if (!err && measure_request_has_key(request))
		err = ocp_meter_set_key(meter, request->key);
	if (!err && request->hist)
		err = ocp_meter_histogram(meter, request->hist);
	if (!err && request->by)
		err = meter_group_by(meter, request->by);
	if (request->has_print_limit)
		ocp_meter_set_print_limit(meter, request->print_limit);
	return err;
}

int measure_request_apply(const struct measure_request *request, struct ocp_meter *meter)
{
	int err = 0;

	for (size_t i = 0; !err && i < request->counted.n; i++)
		err = meter_count_item(meter, &request->counted.list[i]);
	for (size_t i = 0; !err && i < request->n_pairs; i++)
		err = ocp_meter_time(meter, request->pairs[i].start.text,
				     request->pairs[i].stop.text);
	for (size_t i = 0; !err && i < request->timed.n; i++)
		err = ocp_meter_time(meter, request->timed.list[i].text, NULL);
	if (!err && request->depth)
		err = ocp_meter_set_depth(meter, request->depth);
	if (!err)
		err = apply_arguments(request, meter);
	if (measure_request_has_key(request))
		meter->keys = KEYS_AS_ASKED;
	else
		meter->keys = request->key || request->depth ? KEYS_COMPARED : KEYS_FOUND;
	meter->request.spans = request->spans;
	meter->request.stack_depth = request->stack_depth;
	meter->request.children |= request->children;
	meter->request.split = request->split;
	meter->request.has_slower = request->has_slower;
	meter->request.slower_ns = request->slower_ns;
	meter->request.event_bytes = request->event_bytes;
	meter->request.is_outermost = request->is_outermost;
	meter->request.spares_phases = request->spares_phases;
	/* If no argument was set as the key, request->key is NULL or "none". */
	if (!err && !meter->request.key)
		err = keep_text(meter, &meter->request.key, request->key);
	return err;
}

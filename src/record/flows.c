// SPDX-License-Identifier: MIT
#include "record/flows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/*
 * bpf/measure.bpf.c begins or ends a slice before it records the hit, and reads the time for both.
 * So the hit of a start is within the slice, and the hit of a stop has a time just after it.
 */
enum { MOST_APART_NS = 10 * 1000 * 1000 };

/* An event with a key. */
struct keyed {
	struct trace_arg key; /* its text belongs to the trace */
	pid_t pid;
	int64_t ns;
	int64_t end_ns; /* of a request; INT64_MAX: it has not ended */
	bool is_request;
	const char *name;
	size_t item;
};

struct flow_search {
	const struct trace *trace;
	const struct timeline *timeline;
	struct flow_ends *ends;
	struct keyed *list;
	size_t n;
	uint64_t n_flows;
};

static int order_of_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* The bits of a number: also those that are no number have an order. */
static int64_t bits_of(double real)
{
	int64_t bits;

	memcpy(&bits, &real, sizeof(bits));
	return bits;
}

/* By process, key and value: 0 if A and B can belong to one request. */
static int order_of_keys(const struct keyed *a, const struct keyed *b)
{
	int order = order_of_numbers(a->pid, b->pid);

	if (!order)
		order = order_of_numbers(a->key.name, b->key.name);
	if (!order)
		order = order_of_numbers(a->key.kind, b->key.kind);
	if (!order && a->key.kind == TRACE_TEXT)
		return strcmp(a->key.text, b->key.text);
	if (!order && a->key.kind == TRACE_REAL)
		return order_of_numbers(bits_of(a->key.real), bits_of(b->key.real));
	return order ? order : order_of_numbers(a->key.number, b->key.number);
}

static int compare_keyed(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	const int order = order_of_keys(x, y);

	/* The items are in the order of time, and requests come before their hits. */
	return order ? order : order_of_numbers((int64_t)x->item, (int64_t)y->item);
}

/* Add item number I if it has a key. Returns false if memory is short. */
static bool add_keyed(struct flow_search *s, size_t i)
{
	const struct timeline_item *item = &s->timeline->items[i];
	const struct trace_track *track =
		trace_track_get(s->trace, s->timeline->lanes[item->lane].track);
	struct trace_arg args[TRACE_MAX_ARGS];
	struct trace_event event;
	struct keyed *keyed;

	if (item->kind != TIMELINE_BEGIN && item->kind != TIMELINE_INSTANT)
		return true;
	trace_read(s->trace, item->place, args, &event);
	if (!event.key || event.key > event.n_args)
		return true;
	keyed = array_add(s->list, s->n);
	if (!keyed)
		return false;
	*keyed = (struct keyed){ .key = args[event.key - 1],
				 .pid = track->pid,
				 .ns = item->ns,
				 .end_ns = event.is_open ? INT64_MAX
							 : event.begin_ns + event.duration_ns,
				 .is_request = track->kind == TRACE_GROUP,
				 .name = trace_name_text(s->trace, event.name),
				 .item = i };
	return true;
}

/* Return true if NAME is the name of the stop of the pair PAIR, START,STOP. */
static bool is_stop_of(const char *name, const char *pair)
{
	const char *comma = strchr(pair, ',');

	return comma && strcmp(name, comma + 1) == 0;
}

/*
 * Return the place behind the last event of the request REQUEST, which has the events from AT on
 * that are before END_NS.
 */
static size_t end_of_request(const struct keyed *list, size_t n, size_t at,
			     const struct keyed *request, int64_t end_ns)
{
	size_t end = at;

	while (end < n && list[end].ns <= end_ns)
		end++;
	if (end < n && list[end].ns - end_ns <= MOST_APART_NS &&
	    is_stop_of(list[end].name, request->name))
		end++;
	return end;
}

static void link_events(struct flow_search *s, const struct keyed *list, size_t from, size_t end)
{
	for (size_t i = from; i + 1 < end; i++)
		s->ends[list[i].item].out = s->ends[list[i + 1].item].in = ++s->n_flows;
}

/* Connect the events of each request of LIST, which has the N events of one key and value. */
static void connect_requests(struct flow_search *s, const struct keyed *list, size_t n)
{
	size_t at = 0;

	while (at < n) {
		const struct keyed *request = &list[at];
		int64_t end_ns = request->end_ns;
		size_t end;

		if (!request->is_request) {
			at++;
			continue;
		}
		/* A request that begins within another one with this key is a part of it. */
		for (size_t i = at + 1; i < n && list[i].ns < end_ns; i++)
			if (list[i].is_request && list[i].end_ns > end_ns)
				end_ns = list[i].end_ns;
		end = end_of_request(list, n, at, request, end_ns);
		link_events(s, list, at, end);
		at = end;
	}
}

int flows_find(struct ocp_ctx *ctx, const struct trace *trace, const struct timeline *timeline,
	       struct flow_ends **ends)
{
	struct flow_search s = { .trace = trace, .timeline = timeline };
	bool is_done = true;

	*ends = s.ends = calloc(timeline->n_items + 1, sizeof(*s.ends));
	for (size_t i = 0; s.ends && is_done && trace_has_keys(trace) && i < timeline->n_items; i++)
		is_done = add_keyed(&s, i);
	if (s.n)
		qsort(s.list, s.n, sizeof(*s.list), compare_keyed);
	for (size_t from = 0, end; s.ends && is_done && from < s.n; from = end) {
		for (end = from + 1; end < s.n && order_of_keys(&s.list[from], &s.list[end]) == 0;)
			end++;
		connect_requests(&s, s.list + from, end - from);
	}
	free(s.list);
	return s.ends && is_done ? 0 : ctx_no_memory(ctx);
}

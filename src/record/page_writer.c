// SPDX-License-Identifier: MIT
/*
 * Names, texts and stacks come from other processes, and may contain any bytes: strbuf_json() makes
 * them JSON, and page_write_json() makes them safe in the page.
 */
#include "record/page_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "profile/formats/numbering.h"
#include "profile/formats/page_writer.h"
#include "record/flows.h"
#include "record/named_stacks.h"
#include "record/timeline.h"

extern const char timeline_page[]; /* see page.S */

/* Numbers of JavaScript are exact up to this one. */
static const int64_t most_exact = ((int64_t)1 << 53) - 1;

/* The duration of a slice that has not ended. */
static const int64_t NO_END = -1;

/* What the value of an argument is: see page_writer.h. */
enum page_form { FORM_NUMBER, FORM_TEXT, FORM_LONG };

/* A list of JSON values without duplicates. */
struct page_list {
	struct numbering numbers;
	struct strbuf json; /* the values, with commas between them */
};

/* 1 + the numbers of the events at its ends; 0: the event is not written. */
struct page_flow {
	uint64_t from, to;
};

struct page_out {
	struct ocp_ctx *ctx;
	const struct trace_source *source;
	struct timeline timeline;
	FILE *to;
	struct page_list texts, shapes;
	struct named_stacks stacks;
	struct flow_ends *ends;	 /* of flows, by item */
	struct page_flow *flows; /* by number, from 1 on */
	size_t n_flows;
	size_t first;	   /* the first item that is written */
	uint64_t left_out; /* the number of events before it */
	int64_t ns;	   /* the time of the last event that was written */
};

/* An argument of an event as it is written. */
struct page_value {
	enum page_form form;
	char number[40];
};

static bool is_beginning(const struct timeline_item *item)
{
	return item->kind != TIMELINE_END;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* Add the text JSON to TO, which gets a comma if it is not empty. */
static void add_json(struct strbuf *to, const struct strbuf *json)
{
	if (to->n)
		strbuf_lit(to, ",\n");
	strbuf_add(to, json->bytes, json->n);
	to->is_short |= json->is_short;
}

/* Set *NUMBER to the number of the value JSON in LIST, to which it is added if it is new. */
static int number_in_list(struct page_out *out, struct page_list *list, const struct strbuf *json,
			  size_t *number)
{
	bool is_new;

	if (json->is_short || !numbering_of(&list->numbers, json->bytes, json->n, number, &is_new))
		return ctx_no_memory(out->ctx);
	if (is_new)
		add_json(&list->json, json);
	return list->json.is_short ? ctx_no_memory(out->ctx) : 0;
}

static void free_list(struct page_list *list)
{
	numbering_free(&list->numbers);
	strbuf_free(&list->json);
}

/* Write the member NAME, an array of the values JSON. */
static int write_list(struct page_out *out, const char *name, struct strbuf *json)
{
	strbuf_add(json, "", 1);
	if (json->is_short)
		return ctx_no_memory(out->ctx);
	fprintf(out->to, ",\n\"%s\":[", name);
	page_write_json(json->bytes, out->to);
	fputc(']', out->to);
	return 0;
}

/* ---- events --------------------------------------------------------------------------------- */

/* Make VALUE a number in the list of texts. */
static int intern_text(struct page_out *out, const char *text, struct page_value *value)
{
	struct strbuf json = { 0 };
	size_t number;
	int err;

	strbuf_json(&json, text);
	err = number_in_list(out, &out->texts, &json, &number);
	strbuf_free(&json);
	if (!err)
		snprintf(value->number, sizeof(value->number), "%zu", number);
	return err;
}

static int make_value(struct page_out *out, const struct trace_arg *arg, struct page_value *value)
{
	char text[sizeof(value->number)];

	value->form = arg->kind == TRACE_TEXT ? FORM_TEXT : FORM_NUMBER;
	if (arg->kind == TRACE_TEXT)
		return intern_text(out, arg->text, value);
	if (arg->kind == TRACE_REAL)
		snprintf(value->number, sizeof(value->number), "%.17g", arg->real);
	else
		snprintf(value->number, sizeof(value->number), "%" PRId64, arg->number);
	if (arg->kind == TRACE_REAL ? isfinite(arg->real)
				    : arg->number >= -most_exact && arg->number <= most_exact)
		return 0;
	value->form = FORM_LONG;
	memcpy(text, value->number, sizeof(text));
	return intern_text(out, text, value);
}

/* Write the shape and the values of the arguments of EVENT. */
static int write_event_args(struct page_out *out, const struct trace_event *event)
{
	struct page_value values[TRACE_MAX_ARGS];
	struct strbuf shape = { 0 };
	size_t number;
	int err = 0;

	strbuf_lit(&shape, "[");
	for (size_t i = 0; !err && i < event->n_args; i++) {
		err = make_value(out, &event->args[i], &values[i]);
		if (i)
			strbuf_lit(&shape, ",");
		strbuf_u64(&shape, event->args[i].name);
		strbuf_lit(&shape, ",");
		strbuf_u64(&shape, values[i].form);
	}
	strbuf_lit(&shape, "]");
	if (!err)
		err = number_in_list(out, &out->shapes, &shape, &number);
	strbuf_free(&shape);
	if (err)
		return err;
	fprintf(out->to, ",%zu", number);
	for (size_t i = 0; i < event->n_args; i++)
		fprintf(out->to, ",%s", values[i].number);
	return 0;
}

/* Set *NAME to the number of the name of EVENT. */
static int number_name(struct page_out *out, const struct trace_event *event, size_t *name)
{
	size_t stack;
	int err;

	*name = event->kind == TRACE_COUNTER ? 0 : event->name;
	if (!named_stacks_has(event->category))
		return 0;
	err = named_stacks_find(out->ctx, out->source, &out->stacks, event, &stack);
	if (!err && out->stacks.stacks[stack].text)
		*name = trace_name_count(out->source->trace) + stack;
	return err;
}

static int write_event(struct page_out *out, const struct timeline_item *item)
{
	struct trace_arg args[TRACE_MAX_ARGS];
	struct trace_event event;
	size_t name;
	int err;

	trace_read(out->source->trace, item->place, args, &event);
	err = number_name(out, &event, &name);
	if (err)
		return err;
	fprintf(out->to, "%" PRIu32 ",%" PRId64 ",%" PRId64 ",%d,%zu", item->lane,
		item->ns - out->ns,
		event.kind == TRACE_COUNTER ? event.value
		: event.is_open		    ? NO_END
					    : event.duration_ns,
		3 * (int)event.category + (int)event.kind, name);
	out->ns = item->ns;
	return write_event_args(out, &event);
}

/* Find the first item to write: if there are too many events, the oldest ones are left out. */
static uint64_t count_events(struct page_out *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < out->timeline.n_items; i++)
		n += is_beginning(&out->timeline.items[i]);
	for (; n > PAGE_MOST_EVENTS || (n && !is_beginning(&out->timeline.items[out->first]));
	     out->first++)
		if (is_beginning(&out->timeline.items[out->first])) {
			out->left_out++;
			n--;
		}
	return n;
}

/* Find the flows of all items. */
static int find_page_flows(struct page_out *out)
{
	int err = flows_find(out->ctx, out->source->trace, &out->timeline, &out->ends);

	for (size_t i = 0; !err && i < out->timeline.n_items; i++)
		if (out->ends[i].out > out->n_flows)
			out->n_flows = out->ends[i].out;
	out->flows = calloc(out->n_flows + 1, sizeof(*out->flows));
	return err || out->flows ? err : ctx_no_memory(out->ctx);
}

/* Item number I is written as event NUMBER: note this for the flows that begin or end there. */
static void note_flow_ends(struct page_out *out, size_t i, uint64_t number)
{
	const struct flow_ends *ends = &out->ends[i];

	if (ends->out)
		out->flows[ends->out].from = number + 1;
	if (ends->in)
		out->flows[ends->in].to = number + 1;
}

static void write_flows_member(struct page_out *out)
{
	const char *comma = "";

	fputs(",\n\"flows\":[", out->to);
	for (size_t i = 1; i <= out->n_flows; i++) {
		const struct page_flow *flow = &out->flows[i];

		if (!flow->from || !flow->to)
			continue;
		fprintf(out->to, "%s%" PRIu64 ",%" PRIu64, comma, flow->from - 1, flow->to - 1);
		comma = ",";
	}
	fputc(']', out->to);
}

static int write_events(struct page_out *out)
{
	uint64_t n = 0;
	int err = 0;

	fputs("{\"events\":[", out->to);
	for (size_t i = out->first; !err && i < out->timeline.n_items; i++) {
		if (!is_beginning(&out->timeline.items[i]))
			continue;
		if (i != out->first)
			fputs(",\n", out->to);
		note_flow_ends(out, i, n++);
		err = write_event(out, &out->timeline.items[i]);
	}
	fputc(']', out->to);
	return err;
}

/* ---- what the events refer to --------------------------------------------------------------- */

static int write_trace_member(struct page_out *out, uint64_t n_events, int64_t start_ns)
{
	const struct trace_source *source = out->source;
	const int64_t ago_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
	struct strbuf json = { 0 };

	strbuf_json(&json, source->tool);
	strbuf_lit(&json, ",\"why\":");
	strbuf_json(&json, source->why);
	strbuf_lit(&json, ",\"gaps\":");
	strbuf_json(&json, source->gaps);
	strbuf_add(&json, "", 1);
	if (json.is_short) {
		strbuf_free(&json);
		return ctx_no_memory(out->ctx);
	}
	fputs(",\n\"trace\":{\"tool\":", out->to);
	page_write_json(json.bytes, out->to);
	strbuf_free(&json);
	fprintf(out->to,
		",\"n\":%" PRIu64 ",\"start_ns\":\"%" PRId64 "\",\"start_ms\":%" PRId64
		",\"length_ns\":%" PRId64 ",\"lost\":%" PRIu64 ",\"dropped\":%" PRIu64
		",\"left_out\":%" PRIu64 "}",
		n_events, start_ns, (clock_ns(CLOCK_REALTIME) - ago_ns) / 1000000,
		source->end_ns > start_ns ? source->end_ns - start_ns : 0, source->n_lost,
		trace_dropped(source->trace), out->left_out);
	return 0;
}

static void write_categories(struct page_out *out)
{
	fputs(",\n\"categories\":[", out->to);
	for (int i = 0; i < TRACE_CATEGORIES; i++)
		fprintf(out->to, "%s\"%s\"", i ? "," : "",
			trace_category_name((enum trace_category)i));
	fputc(']', out->to);
}

static int write_tracks_member(struct page_out *out)
{
	const struct trace *trace = out->source->trace;
	struct strbuf json = { 0 };
	int err;

	for (uint32_t i = 0; i < trace_track_count(trace); i++) {
		const struct trace_track *track = trace_track_get(trace, i);
		char ids[64];

		if (json.n)
			strbuf_lit(&json, ",\n");
		if (!track) {
			strbuf_lit(&json, "null");
			continue;
		}
		snprintf(ids, sizeof(ids), "[%d,%d,%d,", (int)track->kind, (int)track->pid,
			 (int)track->tid);
		strbuf_str(&json, ids);
		strbuf_json(&json, track->name);
		strbuf_lit(&json, "]");
	}
	err = write_list(out, "tracks", &json);
	strbuf_free(&json);
	return err;
}

static void write_lanes_member(struct page_out *out)
{
	fputs(",\n\"lanes\":[", out->to);
	for (size_t i = 0; i < out->timeline.n_lanes; i++)
		fprintf(out->to, "%s[%" PRIu32 ",%" PRIu32 "]", i ? "," : "",
			out->timeline.lanes[i].track, out->timeline.lanes[i].number);
	fputc(']', out->to);
}

static int write_names_member(struct page_out *out)
{
	struct strbuf json = { 0 };
	int err;

	for (uint32_t i = 0; i < trace_name_count(out->source->trace); i++) {
		if (i)
			strbuf_lit(&json, ",\n");
		strbuf_json(&json, trace_name_text(out->source->trace, i));
	}
	err = write_list(out, "names", &json);
	strbuf_free(&json);
	return err;
}

static int write_stacks_member(struct page_out *out)
{
	struct strbuf json = { 0 };
	int err;

	for (size_t i = 0; i < out->stacks.n; i++) {
		strbuf_str(&json, i ? ",\n[" : "[");
		strbuf_json(&json, out->stacks.stacks[i].name);
		strbuf_lit(&json, ",");
		strbuf_json(&json, out->stacks.stacks[i].text);
		strbuf_lit(&json, "]");
	}
	err = write_list(out, "stacks", &json);
	strbuf_free(&json);
	return err;
}

/* Write what the events refer to. */
static int write_lists(struct page_out *out)
{
	int err = write_tracks_member(out);

	write_categories(out);
	write_lanes_member(out);
	if (!err)
		err = write_names_member(out);
	if (!err)
		err = write_stacks_member(out);
	if (!err)
		err = write_list(out, "texts", &out->texts.json);
	if (!err)
		err = write_list(out, "shapes", &out->shapes.json);
	write_flows_member(out);
	fputc('}', out->to);
	return err;
}

/* Reserve shape 0 for events without arguments. */
static int begin_shapes(struct page_out *out)
{
	struct strbuf json = { 0 };
	size_t number;
	int err;

	strbuf_lit(&json, "[]");
	err = number_in_list(out, &out->shapes, &json, &number);
	strbuf_free(&json);
	return err;
}

static int write_page_data(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	struct page_out out = { .ctx = ctx, .source = data, .to = to };
	int err = timeline_make(ctx, out.source->trace, out.source->since_ns, &out.timeline);
	uint64_t n_events;
	int64_t start_ns;

	if (!err)
		err = begin_shapes(&out);
	if (!err)
		err = find_page_flows(&out);
	if (!err) {
		n_events = count_events(&out);
		start_ns = out.first < out.timeline.n_items ? out.timeline.items[out.first].ns
							    : clock_ns(CLOCK_MONOTONIC);
		out.ns = start_ns;
		err = write_events(&out);
	}
	if (!err)
		err = write_trace_member(&out, n_events, start_ns);
	if (!err)
		err = write_lists(&out);
	timeline_free(&out.timeline);
	free(out.ends);
	free(out.flows);
	named_stacks_free(&out.stacks);
	free_list(&out.texts);
	free_list(&out.shapes);
	return err;
}

int timeline_page_write(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	return page_write(ctx, timeline_page, "the trace", write_page_data, data, to);
}

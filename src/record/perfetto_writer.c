// SPDX-License-Identifier: MIT
/*
 * Each packet is written as a message Trace that has only this packet: a sequence of such messages
 * is the message with all packets. All packets are of one sequence. Its first packet has the names
 * of events, which later packets refer to, and the clock of the time stamps. Tracks are described
 * before their events.
 */
#include "record/perfetto_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "perfetto.pb-c.h"
#include "record/flows.h"
#include "record/named_stacks.h"
#include "record/timeline.h"

typedef Perfetto__Protos__Trace pb_trace;
typedef Perfetto__Protos__TracePacket pb_packet;
typedef Perfetto__Protos__TrackEvent pb_event;
typedef Perfetto__Protos__TrackDescriptor pb_track;
typedef Perfetto__Protos__DebugAnnotation pb_annotation;
typedef Perfetto__Protos__ClockSnapshot__Clock pb_clock;

enum {
	SEQUENCE = 1,
	STATE_CLEARED = 1, /* SEQ_INCREMENTAL_STATE_CLEARED */
	STATE_NEEDED = 2,  /* SEQ_NEEDS_INCREMENTAL_STATE */
	/* BuiltinClocks in clock_snapshot.proto */
	REALTIME = 1,
	MONOTONIC = 3,
	BOOTTIME = 6,
};

struct perfetto_out {
	struct ocp_ctx *ctx;
	const struct trace_source *source;
	struct timeline timeline;
	struct flow_ends *flows; /* by item */
	FILE *to;
	uint8_t *bytes; /* a packet, as it is written */
	size_t room;
	struct named_stacks stacks;
	uint64_t *parents; /* uuids of the tracks of processes, by track; 0: not described */
};

/* uuids must be unique within a trace: that of lane I is I + 2. */
enum { TOOL_UUID = 1, FIRST_LANE_UUID = 2 };

static uint64_t lane_uuid(size_t lane)
{
	return FIRST_LANE_UUID + lane;
}

static uint64_t process_uuid(const struct perfetto_out *out, uint32_t track)
{
	return FIRST_LANE_UUID + out->timeline.n_lanes + track;
}

/* ---- packets -------------------------------------------------------------------------------- */

static int write_packet(struct perfetto_out *out, pb_packet *packet)
{
	pb_trace trace = PERFETTO__PROTOS__TRACE__INIT;
	size_t bytes;

	packet->has_trusted_packet_sequence_id = true;
	packet->trusted_packet_sequence_id = SEQUENCE;
	trace.n_packet = 1;
	trace.packet = &packet;
	bytes = perfetto__protos__trace__get_packed_size(&trace);
	if (bytes > out->room) {
		uint8_t *larger = realloc(out->bytes, 2 * bytes);

		if (!larger)
			return ctx_no_memory(out->ctx);
		out->bytes = larger;
		out->room = 2 * bytes;
	}
	perfetto__protos__trace__pack(&trace, out->bytes);
	fwrite(out->bytes, 1, bytes, out->to);
	return 0;
}

/* ---- names and clocks ----------------------------------------------------------------------- */

/* Names are numbered from 1. The same numbers serve for names of events and of arguments. */
static uint64_t name_iid(uint32_t name)
{
	return (uint64_t)name + 1;
}

/*
 * Behind the names of the trace: the names of the instants that tell of the recording and of its
 * end, as events, and the name of the argument "stack".
 */
static uint64_t next_iid(const struct perfetto_out *out)
{
	return name_iid((uint32_t)trace_name_count(out->source->trace));
}

struct names {
	Perfetto__Protos__EventCategory categories[TRACE_CATEGORIES],
		*category_list[TRACE_CATEGORIES];
	Perfetto__Protos__EventName *events, **event_list;
	Perfetto__Protos__DebugAnnotationName *args, **arg_list;
	Perfetto__Protos__InternedData data;
};

static void free_names(struct names *names, size_t n)
{
	for (size_t i = 0; names->events && i < n; i++)
		free(names->events[i].name);
	free(names->events);
	free(names->event_list);
	free(names->args);
	free(names->arg_list);
}

static void fill_categories(struct names *names)
{
	for (size_t i = 0; i < TRACE_CATEGORIES; i++) {
		perfetto__protos__event_category__init(&names->categories[i]);
		names->categories[i].has_iid = true;
		names->categories[i].iid = i + 1;
		names->categories[i].name = (char *)trace_category_name((enum trace_category)i);
		names->category_list[i] = &names->categories[i];
	}
	names->data.n_event_categories = TRACE_CATEGORIES;
	names->data.event_categories = names->category_list;
}

static int fill_names(struct perfetto_out *out, struct names *names)
{
	const size_t n = trace_name_count(out->source->trace);

	*names = (struct names){ .events = calloc(n + 1, sizeof(*names->events)),
				 .event_list = calloc(n + 1, sizeof(void *)),
				 .args = calloc(n + 1, sizeof(*names->args)),
				 .arg_list = calloc(n + 1, sizeof(void *)) };
	perfetto__protos__interned_data__init(&names->data);
	fill_categories(names);
	if (!names->events || !names->event_list || !names->args || !names->arg_list)
		return ctx_no_memory(out->ctx);
	for (size_t i = 0; i < n; i++) {
		perfetto__protos__event_name__init(&names->events[i]);
		perfetto__protos__debug_annotation_name__init(&names->args[i]);
		names->events[i].has_iid = names->args[i].has_iid = true;
		names->events[i].iid = names->args[i].iid = name_iid((uint32_t)i);
		names->events[i].name = copy_utf8(trace_name_text(out->source->trace, (uint32_t)i));
		names->args[i].name = names->events[i].name;
		names->event_list[i] = &names->events[i];
		names->arg_list[i] = &names->args[i];
		if (!names->events[i].name)
			return ctx_no_memory(out->ctx);
	}
	perfetto__protos__debug_annotation_name__init(&names->args[n]);
	names->args[n].has_iid = true;
	names->args[n].iid = next_iid(out);
	names->args[n].name = (char *)"stack";
	names->arg_list[n] = &names->args[n];
	names->data.n_event_names = n;
	names->data.n_debug_annotation_names = n + 1;
	names->data.event_names = names->event_list;
	names->data.debug_annotation_names = names->arg_list;
	return 0;
}

static pb_clock clock_now(uint32_t id, clockid_t clock)
{
	pb_clock now = PERFETTO__PROTOS__CLOCK_SNAPSHOT__CLOCK__INIT;

	now.has_clock_id = now.has_timestamp = true;
	now.clock_id = id;
	now.timestamp = (uint64_t)clock_ns(clock);
	return now;
}

/* The first packet: the clocks at one moment, and the clock of the time stamps that follow. */
static int write_clocks(struct perfetto_out *out, Perfetto__Protos__InternedData *names)
{
	Perfetto__Protos__TracePacketDefaults defaults =
		PERFETTO__PROTOS__TRACE_PACKET_DEFAULTS__INIT;
	Perfetto__Protos__ClockSnapshot snapshot = PERFETTO__PROTOS__CLOCK_SNAPSHOT__INIT;
	pb_clock clocks[] = { clock_now(MONOTONIC, CLOCK_MONOTONIC),
			      clock_now(BOOTTIME, CLOCK_BOOTTIME),
			      clock_now(REALTIME, CLOCK_REALTIME) };
	pb_clock *list[] = { &clocks[0], &clocks[1], &clocks[2] };
	pb_packet packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;

	defaults.has_timestamp_clock_id = true;
	defaults.timestamp_clock_id = MONOTONIC;
	snapshot.n_clocks = sizeof(list) / sizeof(list[0]);
	snapshot.clocks = list;
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = MONOTONIC;
	packet.has_sequence_flags = true;
	packet.sequence_flags = STATE_CLEARED;
	packet.trace_packet_defaults = &defaults;
	packet.clock_snapshot = &snapshot;
	packet.interned_data = names;
	return write_packet(out, &packet);
}

static int write_head(struct perfetto_out *out)
{
	struct names names;
	int err = fill_names(out, &names);

	if (!err)
		err = write_clocks(out, &names.data);
	free_names(&names, trace_name_count(out->source->trace));
	return err;
}

/* ---- tracks --------------------------------------------------------------------------------- */

static int write_track(struct perfetto_out *out, pb_track *track, const char *name)
{
	pb_packet packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
	char *copy = copy_utf8(name);
	int err;

	if (!copy)
		return ctx_no_memory(out->ctx);
	track->has_uuid = true;
	if (track->process)
		track->process->process_name = copy;
	else if (track->thread)
		track->thread->thread_name = copy;
	else
		track->name = copy;
	packet.track_descriptor = track;
	err = write_packet(out, &packet);
	free(copy);
	return err;
}

/* Describe the process PROCESS, a track, unless it is described already. */
static int write_process(struct perfetto_out *out, uint32_t process)
{
	const struct trace_track *of = trace_track_get(out->source->trace, process);
	Perfetto__Protos__ProcessDescriptor descriptor = PERFETTO__PROTOS__PROCESS_DESCRIPTOR__INIT;
	pb_track track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;

	if (out->parents[process])
		return 0;
	out->parents[process] = track.uuid = process_uuid(out, process);
	descriptor.has_pid = true;
	descriptor.pid = of->pid;
	track.process = &descriptor;
	return write_track(out, &track, of->name);
}

static int write_thread(struct perfetto_out *out, const struct trace_track *of, size_t lane)
{
	Perfetto__Protos__ThreadDescriptor descriptor = PERFETTO__PROTOS__THREAD_DESCRIPTOR__INIT;
	pb_track track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;

	track.uuid = lane_uuid(lane);
	descriptor.has_pid = descriptor.has_tid = true;
	descriptor.pid = of->pid;
	descriptor.tid = of->tid;
	track.thread = &descriptor;
	return write_track(out, &track, of->name);
}

/*
 * Return the number of lane 0 of the track of LANE. Of a track, the lanes are made in their order,
 * and those of other tracks are not between them.
 */
static size_t first_lane(const struct timeline *timeline, size_t lane)
{
	return lane - timeline->lanes[lane].number;
}

static int write_lane(struct perfetto_out *out, size_t lane)
{
	const uint32_t number = out->timeline.lanes[lane].track;
	const struct trace_track *of = trace_track_get(out->source->trace, number);
	const uint32_t process = trace_track_process(out->source->trace, number);
	Perfetto__Protos__CounterDescriptor counter = PERFETTO__PROTOS__COUNTER_DESCRIPTOR__INIT;
	pb_track track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	char name[256];
	int err = process == UINT32_MAX ? 0 : write_process(out, process);

	if (err)
		return err;
	snprintf(name, sizeof(name), "%s", of->name);
	if (of->kind == TRACE_THREAD && !out->timeline.lanes[lane].number)
		return write_thread(out, of, lane);
	track.uuid = lane_uuid(lane);
	track.has_parent_uuid = process != UINT32_MAX;
	track.parent_uuid = process == UINT32_MAX ? 0 : out->parents[process];
	if (of->kind == TRACE_THREAD) {
		track.has_parent_uuid = true;
		track.parent_uuid = lane_uuid(first_lane(&out->timeline, lane));
		snprintf(name, sizeof(name), "%s: overlapping calls", of->name);
	}
	if (of->kind == TRACE_COUNTERS)
		track.counter = &counter;
	if (of->kind == TRACE_SAMPLES)
		snprintf(name, sizeof(name), "CPU samples of %s (%d)", of->name, (int)of->tid);
	return write_track(out, &track, name);
}

static int write_tracks(struct perfetto_out *out)
{
	int err = 0;

	out->parents = calloc(trace_track_count(out->source->trace) + 1, sizeof(*out->parents));
	if (!out->parents)
		return ctx_no_memory(out->ctx);
	for (size_t i = 0; !err && i < out->timeline.n_lanes; i++)
		err = write_lane(out, i);
	return err;
}

/* ---- events --------------------------------------------------------------------------------- */

/* The arguments of one event, and the list that the message of the event points to. */
struct annotations {
	pb_annotation list[TRACE_MAX_ARGS], *pointers[TRACE_MAX_ARGS];
	char *texts[TRACE_MAX_ARGS];
	size_t n_texts;
};

static bool annotate(struct annotations *annotations, const struct trace_event *event)
{
	for (size_t i = 0; i < event->n_args; i++) {
		const struct trace_arg *arg = &event->args[i];
		pb_annotation *to = &annotations->list[i];

		perfetto__protos__debug_annotation__init(to);
		annotations->pointers[i] = to;
		to->has_name_iid = true;
		to->name_iid = name_iid(arg->name);
		to->has_int_value = arg->kind == TRACE_INT;
		to->int_value = arg->number;
		to->has_double_value = arg->kind == TRACE_REAL;
		to->double_value = arg->real;
		if (arg->kind != TRACE_TEXT)
			continue;
		to->string_value = copy_utf8(arg->text);
		if (!to->string_value)
			return false;
		annotations->texts[annotations->n_texts++] = to->string_value;
	}
	return true;
}

static Perfetto__Protos__TrackEvent__Type event_type(enum timeline_kind kind)
{
	static const Perfetto__Protos__TrackEvent__Type types[] = {
		[TIMELINE_BEGIN] = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN,
		[TIMELINE_END] = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_END,
		[TIMELINE_INSTANT] = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_INSTANT,
		[TIMELINE_COUNTER] = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_COUNTER,
	};

	return types[kind];
}

static int write_event_packet(struct perfetto_out *out, int64_t ns, pb_event *event,
			      Perfetto__Protos__InternedData *names)
{
	pb_packet packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;

	packet.has_timestamp = packet.has_sequence_flags = true;
	packet.timestamp = (uint64_t)ns;
	packet.sequence_flags = STATE_NEEDED;
	packet.track_event = event;
	packet.interned_data = names;
	return write_packet(out, &packet);
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* Write a wait or a sample: its name is that of its stack, and the stack is its argument. */
static int write_with_stack(struct perfetto_out *out, const struct timeline_item *item,
			    const struct trace_event *event, pb_event *message)
{
	Perfetto__Protos__InternedString string = PERFETTO__PROTOS__INTERNED_STRING__INIT;
	Perfetto__Protos__InternedString *strings = &string;
	Perfetto__Protos__InternedData data = PERFETTO__PROTOS__INTERNED_DATA__INIT;
	pb_annotation stack = PERFETTO__PROTOS__DEBUG_ANNOTATION__INIT, *stacks = &stack;
	struct named_stack_text *described;
	uint64_t category = (uint64_t)event->category + 1;
	size_t number;
	int err = named_stacks_find(out->ctx, out->source, &out->stacks, event, &number);

	if (err)
		return err;
	described = &out->stacks.stacks[number];
	message->n_category_iids = 1;
	message->category_iids = &category;
	if (!described->text) {
		message->has_name_iid = true;
		message->name_iid = name_iid(event->name);
		return write_event_packet(out, item->ns, message, NULL);
	}
	message->name = described->name;
	stack.has_name_iid = stack.has_string_value_iid = true;
	stack.name_iid = next_iid(out);
	stack.string_value_iid = number + 1;
	message->n_debug_annotations = 1;
	message->debug_annotations = &stacks;
	string.has_iid = string.has_str = true;
	string.iid = number + 1;
	string.str.data = (uint8_t *)described->text;
	string.str.len = strlen(described->text);
	data.n_debug_annotation_string_values = 1;
	data.debug_annotation_string_values = &strings;
	err = write_event_packet(out, item->ns, message, described->is_written ? NULL : &data);
	described->is_written = true;
	return err;
}

/* ---- items ---------------------------------------------------------------------------------- */

/* Write the beginning of a slice, or an instant: with a name, a category and arguments. */
static int write_named(struct perfetto_out *out, const struct timeline_item *item,
		       const struct trace_event *event, pb_event *message)
{
	struct annotations annotations;
	uint64_t category = (uint64_t)event->category + 1;
	int err;

	annotations.n_texts = 0;
	err = annotate(&annotations, event) ? 0 : ctx_no_memory(out->ctx);

	message->has_name_iid = true;
	message->name_iid = name_iid(event->name);
	message->n_category_iids = 1;
	message->category_iids = &category;
	message->n_debug_annotations = event->n_args;
	message->debug_annotations = annotations.pointers;
	if (!err)
		err = write_event_packet(out, item->ns, message, NULL);
	for (size_t i = 0; i < annotations.n_texts; i++)
		free(annotations.texts[i]);
	message->n_category_iids = message->n_debug_annotations = 0;
	message->category_iids = NULL;
	message->debug_annotations = NULL;
	return err;
}

static int write_item(struct perfetto_out *out, size_t i)
{
	const struct timeline_item *item = &out->timeline.items[i];
	struct flow_ends *flow = &out->flows[i];
	struct trace_arg args[TRACE_MAX_ARGS];
	struct trace_event event;
	pb_event message = PERFETTO__PROTOS__TRACK_EVENT__INIT;

	message.has_type = message.has_track_uuid = true;
	message.type = event_type(item->kind);
	message.track_uuid = lane_uuid(item->lane);
	message.n_flow_ids = flow->out != 0;
	message.flow_ids = &flow->out;
	message.n_terminating_flow_ids = flow->in != 0;
	message.terminating_flow_ids = &flow->in;
	if (item->kind == TIMELINE_END)
		return write_event_packet(out, item->ns, &message, NULL);
	trace_read(out->source->trace, item->place, args, &event);
	if (named_stacks_has(event.category))
		return write_with_stack(out, item, &event, &message);
	if (item->kind != TIMELINE_COUNTER)
		return write_named(out, item, &event, &message);
	message.has_counter_value = true;
	message.counter_value = event.value;
	return write_event_packet(out, item->ns, &message, NULL);
}

/* ---- what was lost -------------------------------------------------------------------------- */

/* Write an instant with the name TEXT at NS, on the track of the tool. The name gets number IID. */
static int write_remark(struct perfetto_out *out, int64_t ns, const char *text, uint64_t iid)
{
	pb_event event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
	Perfetto__Protos__EventName name = PERFETTO__PROTOS__EVENT_NAME__INIT, *names = &name;
	Perfetto__Protos__InternedData data = PERFETTO__PROTOS__INTERNED_DATA__INIT;
	int err;

	name.has_iid = true;
	name.iid = iid;
	name.name = copy_utf8(text);
	if (!name.name)
		return ctx_no_memory(out->ctx);
	data.n_event_names = 1;
	data.event_names = &names;
	event.has_type = event.has_track_uuid = event.has_name_iid = true;
	event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_INSTANT;
	event.track_uuid = TOOL_UUID;
	event.name_iid = name.iid;
	err = write_event_packet(out, ns, &event, &data);
	free(name.name);
	return err;
}

/*
 * Write an instant, at the time of the first event, that says which tool has made the trace, why,
 * and which events are missing.
 */
static int write_origin(struct perfetto_out *out)
{
	const struct trace_source *source = out->source;
	const int64_t ns =
		out->timeline.n_items ? out->timeline.items[0].ns : clock_ns(CLOCK_MONOTONIC);
	pb_track track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	char text[1024];
	int err;

	snprintf(text, sizeof(text),
		 "%s%s%s%s%s; lost: %" PRIu64 " (no room), dropped: %" PRIu64
		 " (no room in memory)",
		 source->tool, source->why ? "; " : "", source->why ? source->why : "",
		 *source->gaps ? "; " : "", source->gaps, source->n_lost,
		 trace_dropped(source->trace));
	track.uuid = TOOL_UUID;
	err = write_track(out, &track, "ocaml-probes");
	return err ? err : write_remark(out, ns, text, next_iid(out));
}

/*
 * A viewer draws a slice without an end until the last event of the trace. So write an instant at
 * the end of the recording, which says how many of these slices there are.
 */
static int write_end(struct perfetto_out *out)
{
	const struct timeline *timeline = &out->timeline;
	const int64_t last_ns = timeline->n_items ? timeline->items[timeline->n_items - 1].ns : 0;
	const uint64_t n = out->source->n_open;
	const int64_t ns = out->source->end_ns > last_ns ? out->source->end_ns : last_ns;
	char text[128];

	if (!n)
		return 0;
	snprintf(text, sizeof(text), "end of the recording; slices without an end: %" PRIu64, n);
	return write_remark(out, ns, text, next_iid(out) + 1);
}

int perfetto_write(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	struct perfetto_out out = { .ctx = ctx, .source = data, .to = to };
	int err = timeline_make(ctx, out.source->trace, out.source->since_ns, &out.timeline);

	if (!err)
		err = flows_find(ctx, out.source->trace, &out.timeline, &out.flows);
	if (!err)
		err = write_head(&out);
	if (!err)
		err = write_tracks(&out);
	if (!err)
		err = write_origin(&out);
	for (size_t i = 0; !err && i < out.timeline.n_items; i++)
		err = write_item(&out, i);
	if (!err)
		err = write_end(&out);
	timeline_free(&out.timeline);
	named_stacks_free(&out.stacks);
	free(out.flows);
	free(out.parents);
	free(out.bytes);
	return err;
}

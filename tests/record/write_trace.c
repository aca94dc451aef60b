// SPDX-License-Identifier: MIT
/*
 * write_trace pftrace|html: the trace on the standard input, in that format. The trace is a JSON
 * object:
 *
 *	tool, why, lost, since, memory	see record/source.h; memory is the size of the buffer
 *	tracks	[kind, pid, tid, name]...
 *	names	text...
 *	stacks	[name, text]...; null: a stack that is not known
 *	events	[kind, track, name, category, begin, duration or value, stack, [name, value...],
 *		key]...
 *		A slice with the duration -1 has not ended. key is 1 + the number of the argument
 *		that is the key; missing: none.
 *	end	when the recording ended (CLOCK_MONOTONIC); 0 or missing: not known
 *	repeat	how often the events occur, each time one nanosecond later
 *
 * An integer, a real or a string is an argument of this type.
 */
#include <err.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/page_writer.h"
#include "record/perfetto_writer.h"

/* What moments_describe() knows. */
static struct json_object *stacks;

/* This takes the place of the function of the tool, which asks the kernel for stacks. */
int moments_describe(struct moments *moments, enum trace_category category, uint64_t stack,
		     char **name, char **text)
{
	struct json_object *pair = json_object_array_get_idx(stacks, stack);

	(void)moments;
	(void)category;
	*name = *text = NULL;
	if (!pair)
		return -ENOENT;
	*name = strdup(json_object_get_string(json_object_array_get_idx(pair, 0)));
	*text = strdup(json_object_get_string(json_object_array_get_idx(pair, 1)));
	return *name && *text ? 0 : -ENOMEM;
}

static struct json_object *member(struct json_object *object, const char *name)
{
	struct json_object *found;

	if (!json_object_object_get_ex(object, name, &found))
		errx(1, "no member '%s'", name);
	return found;
}

static int64_t number_at(struct json_object *array, size_t i)
{
	return json_object_get_int64(json_object_array_get_idx(array, i));
}

static const char *text_at(struct json_object *array, size_t i)
{
	return json_object_get_string(json_object_array_get_idx(array, i));
}

static void check(int err)
{
	if (err < 0)
		errx(1, "%s", strerror(-err));
}

static void add_tracks(struct trace *trace, struct json_object *tracks)
{
	for (size_t i = 0; i < json_object_array_length(tracks); i++) {
		struct json_object *track = json_object_array_get_idx(tracks, i);
		uint32_t number;

		check(trace_track(trace, (enum trace_track_kind)number_at(track, 0),
				  (pid_t)number_at(track, 1), (pid_t)number_at(track, 2),
				  text_at(track, 3), 0, &number));
	}
}

static size_t read_args(struct json_object *from, struct trace_arg *args)
{
	const size_t n = json_object_array_length(from) / 2;

	for (size_t i = 0; i < n; i++) {
		struct json_object *value = json_object_array_get_idx(from, 2 * i + 1);

		args[i] = (struct trace_arg){ .name = (uint32_t)number_at(from, 2 * i) };
		args[i].kind = json_object_is_type(value, json_type_int)      ? TRACE_INT
			       : json_object_is_type(value, json_type_double) ? TRACE_REAL
									      : TRACE_TEXT;
		args[i].number = json_object_get_int64(value);
		args[i].real = json_object_get_double(value);
		args[i].text = json_object_get_string(value);
	}
	return n;
}

static void add_event(struct trace *trace, struct json_object *from, int64_t later_ns)
{
	struct trace_arg args[TRACE_MAX_ARGS];
	struct trace_event event = {
		.kind = (enum trace_event_kind)number_at(from, 0),
		.track = (uint32_t)number_at(from, 1),
		.name = (uint32_t)number_at(from, 2),
		.category = (enum trace_category)number_at(from, 3),
		.begin_ns = number_at(from, 4) + later_ns,
		.duration_ns = number_at(from, 5) < 0 ? 0 : number_at(from, 5),
		.is_open = number_at(from, 0) == TRACE_SLICE && number_at(from, 5) < 0,
		.value = number_at(from, 5),
		.stack = (uint64_t)number_at(from, 6),
		.args = args,
	};

	event.key = (uint8_t)number_at(from, 8);
	event.n_args = read_args(json_object_array_get_idx(from, 7), args);
	check(trace_add(trace, &event));
}

static void add_events(struct trace *trace, struct json_object *events, int64_t later_ns)
{
	for (size_t i = 0; i < json_object_array_length(events); i++)
		add_event(trace, json_object_array_get_idx(events, i), later_ns);
}

static uint64_t count_open(struct json_object *events)
{
	uint64_t n = 0;

	for (size_t i = 0; i < json_object_array_length(events); i++) {
		struct json_object *event = json_object_array_get_idx(events, i);

		n += number_at(event, 0) == TRACE_SLICE && number_at(event, 5) < 0;
	}
	return n;
}

static struct json_object *read_json(void)
{
	char *text = NULL;
	size_t room = 0;
	struct json_object *json;

	if (getdelim(&text, &room, '\0', stdin) < 0)
		err(1, "standard input");
	json = json_tokener_parse(text);
	if (!json)
		errx(1, "standard input: no JSON");
	free(text);
	return json;
}

int main(int argc, char **argv)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct json_object *json = read_json(), *names = member(json, "names");
	struct trace_source source = {
		.tool = json_object_get_string(member(json, "tool")),
		.why = json_object_get_string(member(json, "why")),
		.gaps = "",
		.n_lost = (uint64_t)json_object_get_int64(member(json, "lost")),
		.since_ns = json_object_get_int64(member(json, "since")),
	};
	struct json_object *end;
	struct trace *trace;
	uint32_t number;
	int status;

	if (argc != 2 || !ctx)
		errx(1, "usage: write_trace pftrace|html <TRACE");
	stacks = member(json, "stacks");
	check(trace_new(ctx, (size_t)json_object_get_int64(member(json, "memory")), &trace));
	add_tracks(trace, member(json, "tracks"));
	for (size_t i = 0; i < json_object_array_length(names); i++)
		check(trace_name(trace, text_at(names, i), &number));
	for (int64_t i = 0; i < json_object_get_int64(member(json, "repeat")); i++)
		add_events(trace, member(json, "events"), i);
	source.trace = trace;
	source.n_open = count_open(member(json, "events"));
	if (json_object_object_get_ex(json, "end", &end))
		source.end_ns = json_object_get_int64(end);
	status = strcmp(argv[1], "html") == 0 ? timeline_page_write(ctx, &source, stdout)
					      : perfetto_write(ctx, &source, stdout);
	if (status)
		warnx("%s", ocp_error(ctx));
	trace_free(trace);
	json_object_put(json);
	ocp_ctx_free(ctx);
	return status != 0;
}

// SPDX-License-Identifier: MIT
/*
 * The buffer of a trace against a model that forgets nothing: what is left is the newest events,
 * each with all that it was added with.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/trace.h"
#include "unit.h"

static struct trace *new_trace(struct ocp_ctx *ctx, size_t bytes)
{
	struct trace *trace;

	assert_int_equal(trace_new(ctx, bytes, &trace), 0);
	return trace;
}

static uint32_t name_number(struct trace *trace, const char *text)
{
	uint32_t number;

	assert_int_equal(trace_name(trace, text, &number), 0);
	assert_string_equal(trace_name_text(trace, number), text);
	return number;
}

static uint32_t thread_number(struct trace *trace, pid_t pid, pid_t tid, const char *name, int made)
{
	uint32_t number;

	assert_int_equal(trace_track(trace, TRACE_THREAD, pid, tid, name, 0, &number), made);
	assert_string_equal(trace_track_get(trace, number)->name, name);
	return number;
}

/* The text of event number I: of many sizes. */
static const char *text_of(uint64_t i, char text[300])
{
	memset(text, 'a' + (int)(i % 26), 300);
	text[i * 7 % 299] = '\0';
	return text;
}

static void add_numbered(struct trace *trace, uint32_t track, uint32_t name, uint64_t i)
{
	char text[300];
	const struct trace_arg args[] = {
		{ .kind = TRACE_INT, .name = name, .number = -(int64_t)i },
		{ .kind = TRACE_TEXT, .name = name, .text = text_of(i, text) },
		{ .kind = TRACE_REAL, .name = name, .real = (double)i / 3 },
	};
	const struct trace_event event = {
		.kind = i % 2 ? TRACE_SLICE : TRACE_COUNTER,
		.category = (enum trace_category)(i % TRACE_CATEGORIES),
		.track = track,
		.name = name,
		.begin_ns = (int64_t)i,
		.duration_ns = i % 2 ? (int64_t)i * 2 : 0,
		.value = i % 2 ? 0 : (int64_t)i * 3,
		.stack = i * 5,
		.args = args,
		.n_args = i % 4,
	};

	assert_int_equal(trace_add(trace, &event), 0);
}

static void check_numbered(const struct trace_event *event, uint64_t i)
{
	char text[300];

	assert_int_equal(event->begin_ns, i);
	assert_int_equal(event->kind, i % 2 ? TRACE_SLICE : TRACE_COUNTER);
	assert_int_equal(event->category, i % TRACE_CATEGORIES);
	assert_int_equal(event->duration_ns, i % 2 ? i * 2 : 0);
	assert_int_equal(event->value, i % 2 ? 0 : i * 3);
	assert_int_equal(event->stack, i * 5);
	assert_int_equal(event->n_args, i % 4);
	if (event->n_args > 0)
		assert_int_equal(event->args[0].number, -(int64_t)i);
	if (event->n_args > 1)
		assert_string_equal(event->args[1].text, text_of(i, text));
	if (event->n_args > 2)
		assert_true(event->args[2].real == (double)i / 3);
}

/* After each event that is added, up to several times the size of the buffer. */
TEST(the_newest_events_are_kept)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct trace *trace = new_trace(ctx, 0);
	const uint32_t track = thread_number(trace, 1, 2, "thread", 1);
	const uint32_t name = name_number(trace, "name");
	struct trace_arg args[TRACE_MAX_ARGS];
	uint64_t most = 0;

	for (uint64_t i = 0; i < 40000; i++) {
		size_t place = TRACE_START;
		uint64_t next = trace_dropped(trace);

		assert_int_equal(trace_dropped(trace) + trace_event_count(trace), i);
		for (; i % 997 == 0 && trace_next(trace, &place); next++) {
			struct trace_event event;

			trace_read(trace, place, args, &event);
			check_numbered(&event, next);
		}
		assert_true(i % 997 || next == i);
		add_numbered(trace, track, name, i);
		most = most > trace_event_count(trace) ? most : trace_event_count(trace);
	}
	/* The buffer was filled several times, and never emptied. */
	assert_true(trace_dropped(trace) > 3 * most && most > 4000);
	assert_true(trace_event_count(trace) > most / 2);
	trace_free(trace);
	ocp_ctx_free(ctx);
}

/* Return the number of events, which must be the newest ones before event number NEXT. */
static uint64_t check_all(const struct trace *trace, uint64_t next)
{
	uint64_t i = trace_dropped(trace);
	struct trace_arg args[TRACE_MAX_ARGS];
	size_t place = TRACE_START;

	for (; trace_next(trace, &place); i++) {
		struct trace_event event;

		trace_read(trace, place, args, &event);
		check_numbered(&event, i);
	}
	assert_int_equal(i, next);
	assert_int_equal(trace_event_count(trace), next - trace_dropped(trace));
	return trace_event_count(trace);
}

/* Events for one file are removed at each place of the buffer, few of them and more than fit. */
TEST(events_for_one_file_are_removed)
{
	static const uint64_t added[] = { 0, 1, 40, 3000, 30000 };
	struct ocp_ctx *ctx = ocp_ctx_new();
	uint64_t n_emptied = 0;

	for (uint64_t round = 0; round < 60; round++) {
		struct trace *trace = new_trace(ctx, 0);
		const uint32_t track = thread_number(trace, 1, 2, "thread", 1);
		const uint32_t name = name_number(trace, "name");
		const uint64_t n_before = round / 5 * 1117, n = added[round % 5];
		struct trace_mark mark;
		uint64_t i = 0;

		for (; i < n_before; i++)
			add_numbered(trace, track, name, i);
		mark = trace_mark(trace);
		for (; i < n_before + n; i++)
			add_numbered(trace, track, name, i);
		check_all(trace, i);
		trace_rewind(trace, &mark);
		n_emptied += check_all(trace, n_before) == 0;
		for (i = n_before; i < n_before + 6000; i++)
			add_numbered(trace, track, name, i);
		check_all(trace, i);
		trace_free(trace);
	}
	/* The first ones, and those where more was added than fits. */
	assert_int_equal(n_emptied, 5 + 11);
	ocp_ctx_free(ctx);
}

TEST(events_that_are_too_large)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct trace *trace = new_trace(ctx, TRACE_MIN_BYTES);
	char *text = calloc(1, 70000);
	struct trace_arg args[TRACE_MAX_ARGS + 1] = { { .kind = TRACE_TEXT, .text = text } };
	struct trace_event event = { .args = args, .n_args = 1 };

	event.track = thread_number(trace, 1, 2, "thread", 1);
	event.name = name_number(trace, "name");
	memset(text, 'x', 65000);
	assert_int_equal(trace_add(trace, &event), 0);
	memset(text, 'x', 69999);
	assert_int_equal(trace_add(trace, &event), -E2BIG);
	text[100] = '\0';
	event.n_args = TRACE_MAX_ARGS + 1;
	for (size_t i = 0; i < event.n_args; i++)
		args[i] = args[0];
	assert_int_equal(trace_add(trace, &event), -E2BIG);
	event.n_args = TRACE_MAX_ARGS;
	text[100] = 'x';
	text[60000] = '\0';
	assert_int_equal(trace_add(trace, &event), -E2BIG);
	assert_int_equal(trace_event_count(trace), 1);
	free(text);
	trace_free(trace);
	ocp_ctx_free(ctx);
}

TEST(tracks)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct trace *trace = new_trace(ctx, 0);
	uint32_t process, group, same, other;
	uint32_t thread;

	assert_int_equal(trace_track(trace, TRACE_PROCESS, 7, 0, "program", 0, &process), 1);
	thread = thread_number(trace, 7, 8, "before", 1);
	assert_int_equal(trace_track_process(trace, thread), process);
	assert_int_equal(thread_number(trace, 7, 8, "after", 0), thread);
	assert_int_equal(trace_track(trace, TRACE_GROUP, 7, 0, "a", 0, &group), 1);
	assert_int_equal(trace_track(trace, TRACE_GROUP, 7, 0, "a", 0, &same), 0);
	assert_int_equal(same, group);
	assert_int_equal(trace_track(trace, TRACE_GROUP, 7, 0, "b", 0, &other), 1);
	assert_int_not_equal(other, group);
	assert_int_equal(trace_track(trace, TRACE_COUNTERS, 7, 0, "a", 0, &other), 1);
	assert_int_not_equal(other, group);
	assert_int_equal(trace_track_process(trace, other), process);
	assert_false(trace_find_track(trace, TRACE_SAMPLES, 7, 8, "", &other));
	assert_true(trace_find_track(trace, TRACE_THREAD, 7, 8, "", &other));
	assert_int_equal(other, thread);
	/* A thread of a process that has no track. */
	thread = thread_number(trace, 9, 9, "alone", 1);
	assert_int_equal(trace_track_process(trace, thread), UINT32_MAX);
	trace_free(trace);
	ocp_ctx_free(ctx);
}

/* The wait of a thread can be read after a hit that came later, and has the name of its time. */
TEST(a_track_has_the_latest_name)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct trace *trace = new_trace(ctx, 0);
	uint32_t thread;

	assert_int_equal(trace_track(trace, TRACE_THREAD, 7, 8, "second", 20, &thread), 1);
	assert_int_equal(trace_track(trace, TRACE_THREAD, 7, 8, "first", 10, &thread), 0);
	assert_string_equal(trace_track_get(trace, thread)->name, "second");
	assert_int_equal(trace_track(trace, TRACE_THREAD, 7, 8, "third", 30, &thread), 0);
	assert_string_equal(trace_track_get(trace, thread)->name, "third");
	trace_free(trace);
	ocp_ctx_free(ctx);
}

/* Threads that end by the thousand: those without events are forgotten, their process is not. */
TEST(tracks_without_events_are_removed)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct trace *trace = new_trace(ctx, 0);
	const uint32_t name = name_number(trace, "name");
	uint32_t process;
	size_t n_used = 0;

	assert_int_equal(trace_track(trace, TRACE_PROCESS, 1, 0, "program", 0, &process), 1);
	for (int tid = 1; tid <= 100000; tid++)
		add_numbered(trace, thread_number(trace, 1, tid, "thread", 1), name, 1);
	assert_true(trace_dropped(trace) > 50000);
	for (uint32_t i = 0; i < trace_track_count(trace); i++)
		n_used += trace_track_get(trace, i) != NULL;
	assert_true(n_used <= 4 * trace_event_count(trace) && n_used > trace_event_count(trace));
	assert_int_equal(trace_track_get(trace, process)->kind, TRACE_PROCESS);
	thread_number(trace, 1, 100000, "thread", 0);
	trace_free(trace);
	ocp_ctx_free(ctx);
}

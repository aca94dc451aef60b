// SPDX-License-Identifier: MIT
/* How events are arranged: slices in lanes where they nest, all by time. */
#include <stdint.h>
#include <stdlib.h>

#include "record/timeline.h"
#include "unit.h"

struct made {
	struct ocp_ctx *ctx;
	struct trace *trace;
	struct timeline timeline;
};

static void begin(struct made *made)
{
	made->ctx = ocp_ctx_new();
	assert_int_equal(trace_new(made->ctx, 0, &made->trace), 0);
}

static void add(struct made *made, enum trace_track_kind track, enum trace_event_kind kind,
		int64_t begin_ns, int64_t end_ns)
{
	struct trace_event event = { .kind = kind,
				     .begin_ns = begin_ns,
				     .duration_ns = end_ns - begin_ns };

	assert_int_equal(trace_name(made->trace, "event", &event.name), 0);
	assert_true(trace_track(made->trace, track, 1, 1, "track", 0, &event.track) >= 0);
	assert_int_equal(trace_add(made->trace, &event), 0);
}

static void arrange(struct made *made, int64_t since_ns)
{
	assert_int_equal(timeline_make(made->ctx, made->trace, since_ns, &made->timeline), 0);
}

static void end(struct made *made)
{
	timeline_free(&made->timeline);
	trace_free(made->trace);
	ocp_ctx_free(made->ctx);
}

/* The items as text: for each one its kind, lane and time. */
static void check_items(const struct made *made, const char *expected)
{
	char text[1024] = "", *at = text;

	for (size_t i = 0; i < made->timeline.n_items; i++) {
		const struct timeline_item *item = &made->timeline.items[i];

		at += snprintf(at, sizeof(text) - (size_t)(at - text), "%s%c%u@%lld", i ? " " : "",
			       "BEIC"[item->kind], made -> timeline.lanes[item->lane].number,
			       (long long)item->ns);
	}
	assert_string_equal(text, expected);
}

/* Calls are added when they end: the inner one first. */
TEST(calls_nest)
{
	struct made made = { 0 };

	begin(&made);
	add(&made, TRACE_THREAD, TRACE_SLICE, 3, 4);
	add(&made, TRACE_THREAD, TRACE_SLICE, 2, 6);
	add(&made, TRACE_THREAD, TRACE_INSTANT, 5, 5);
	add(&made, TRACE_THREAD, TRACE_SLICE, 6, 8);
	add(&made, TRACE_THREAD, TRACE_SLICE, 1, 9);
	arrange(&made, 0);
	check_items(&made, "B0@1 B0@2 B0@3 E0@4 I0@5 E0@6 B0@6 E0@8 E0@9");
	end(&made);
}

/* Of slices that begin, or end, together, the outer one begins first and ends last. */
TEST(calls_with_equal_times)
{
	struct made made = { 0 };

	begin(&made);
	add(&made, TRACE_THREAD, TRACE_SLICE, 1, 2);
	add(&made, TRACE_THREAD, TRACE_SLICE, 1, 3);
	add(&made, TRACE_THREAD, TRACE_SLICE, 1, 3);
	add(&made, TRACE_THREAD, TRACE_SLICE, 2, 3);
	add(&made, TRACE_THREAD, TRACE_SLICE, 3, 3);
	arrange(&made, 0);
	check_items(&made, "B0@1 B0@1 B0@1 E0@2 B0@2 E0@3 E0@3 E0@3 B0@3 E0@3");
	end(&made);
}

/* Instants with the same time stay in their order, behind slices that begin then. */
TEST(instants_with_equal_times)
{
	struct made made = { 0 };

	begin(&made);
	for (int i = 0; i < 3; i++)
		add(&made, TRACE_THREAD, TRACE_INSTANT, 2, 2);
	add(&made, TRACE_THREAD, TRACE_SLICE, 2, 2);
	arrange(&made, 0);
	check_items(&made, "B0@2 I0@2 I0@2 I0@2 E0@2");
	assert_true(made.timeline.items[2].place < made.timeline.items[3].place);
	assert_true(made.timeline.items[3].place < made.timeline.items[4].place);
	end(&made);
}

/* As calls of two fibres of one thread. */
TEST(calls_that_overlap)
{
	struct made made = { 0 };

	begin(&made);
	add(&made, TRACE_THREAD, TRACE_SLICE, 1, 5);
	add(&made, TRACE_THREAD, TRACE_SLICE, 3, 8);
	add(&made, TRACE_THREAD, TRACE_SLICE, 4, 5);
	add(&made, TRACE_THREAD, TRACE_SLICE, 6, 9);
	add(&made, TRACE_THREAD, TRACE_SLICE, 7, 11);
	arrange(&made, 0);
	check_items(&made, "B0@1 B1@3 B0@4 E0@5 E0@5 B0@6 B2@7 E1@8 E0@9 E2@11");
	assert_int_equal(made.timeline.n_lanes, 3);
	end(&made);
}

/* Requests are beside each other, even if one is within another. */
TEST(groups_do_not_nest)
{
	struct made made = { 0 };

	begin(&made);
	add(&made, TRACE_GROUP, TRACE_SLICE, 2, 3);
	add(&made, TRACE_GROUP, TRACE_SLICE, 1, 4);
	add(&made, TRACE_GROUP, TRACE_SLICE, 3, 5);
	add(&made, TRACE_GROUP, TRACE_SLICE, 4, 6);
	arrange(&made, 0);
	check_items(&made, "B0@1 B1@2 E1@3 B1@3 E0@4 B0@4 E1@5 E0@6");
	end(&made);
}

/* What ended before is left out; what began before is there with its beginning. */
TEST(since)
{
	struct made made = { 0 };

	begin(&made);
	add(&made, TRACE_THREAD, TRACE_SLICE, 1, 4);
	add(&made, TRACE_COUNTERS, TRACE_COUNTER, 4, 4);
	add(&made, TRACE_COUNTERS, TRACE_COUNTER, 5, 5);
	add(&made, TRACE_THREAD, TRACE_SLICE, 2, 5);
	add(&made, TRACE_THREAD, TRACE_INSTANT, 6, 6);
	arrange(&made, 5);
	check_items(&made, "B0@2 E0@5 C0@5 I0@6");
	timeline_free(&made.timeline);
	arrange(&made, 7);
	assert_int_equal(made.timeline.n_items, 0);
	end(&made);
}

/* Random slices: on each lane they nest, each has one end, and no slice is lost. */
TEST(random_slices)
{
	struct made made = { 0 };
	uint64_t random_state = 42;
	size_t n_slices = 0;

	begin(&made);
	for (int i = 0; i < 3000; i++) {
		int64_t from, until;

		random_state = random_state * 6364136223846793005U + 1442695040888963407U;
		from = (int64_t)(random_state >> 40) % 10000;
		until = from + (int64_t)(random_state >> 50) % 300;
		add(&made, i % 3 ? TRACE_THREAD : TRACE_GROUP, TRACE_SLICE, from, until);
	}
	arrange(&made, 0);
	for (size_t lane = 0; lane < made.timeline.n_lanes; lane++) {
		size_t open[200], n = 0;

		for (size_t i = 0; i < made.timeline.n_items; i++) {
			const struct timeline_item *item = &made.timeline.items[i];

			assert_true(!i || item[-1].ns <= item->ns);
			if (item->lane != lane)
				continue;
			if (item->kind == TIMELINE_BEGIN) {
				assert_true(n < 200);
				open[n++] = item->place;
				n_slices++;
			} else {
				assert_true(n && open[n - 1] == item->place);
				n--;
			}
		}
		assert_int_equal(n, 0);
	}
	assert_int_equal(n_slices, 3000);
	end(&made);
}

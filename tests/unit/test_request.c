// SPDX-License-Identifier: MIT
/* Requests to measure: copies, what makes two of them differ, and what does not go together. */
#include <stdlib.h>
#include <string.h>

#include "measure/args/request.h"
#include "unit.h"

static void fill_in(struct measure_request *request)
{
	assert_int_equal(items_add(&request->counted, ITEM_PROBE, "a,b"), 0);
	assert_int_equal(items_add(&request->counted, ITEM_ALL_PROBES, NULL), 0);
	assert_int_equal(items_add(&request->printed, ITEM_PROBE_REGEXP, "x.*"), 0);
	assert_int_equal(measure_request_add_pair(request, "a,b", "c"), 0);
	assert_int_equal(measure_request_add_pair(request, "fn:A\\..*", NULL), 0);
	assert_int_equal(measure_request_set_text(&request->key, "arg0"), 0);
	assert_int_equal(measure_request_set_text(&request->filter, "arg1 > 1"), 0);
	assert_int_equal(measure_request_set_text(&request->hist, "arg2"), 0);
	assert_int_equal(measure_request_set_text(&request->by, "id"), 0);
	request->split = OCP_BY_SITE;
	request->depth = 3;
	request->print_limit = 7;
	request->has_print_limit = request->children = true;
	request->budget = 0.5;
}

TEST(copies_are_equal)
{
	struct measure_request request = { 0 }, *copy, *second;

	assert_true(measure_request_is_empty(&request));
	fill_in(&request);
	assert_false(measure_request_is_empty(&request));
	copy = measure_request_copy(&request);
	assert_non_null(copy);
	assert_true(measure_request_equal(&request, copy));
	assert_ptr_not_equal(copy->pairs[0].start.text, request.pairs[0].start.text);
	assert_ptr_not_equal(copy->key, request.key);
	measure_request_free(&request);
	assert_true(measure_request_is_empty(&request));
	assert_false(measure_request_equal(&request, copy));
	second = measure_request_copy(copy);
	assert_true(measure_request_equal(second, copy));
	measure_request_drop(second);
	measure_request_drop(copy);
	measure_request_drop(NULL);
}

/* Each way in which REQUEST, which fill_in made, can differ; false: there are no more. */
static bool change(struct measure_request *request, unsigned int what)
{
	switch (what) {
	case 0:
		request->counted.list[0].kind = ITEM_PROBE_REGEXP;
		return true;
	case 1:
		return items_add_text(&request->counted, "more") == 0;
	case 2:
		return items_add_text(&request->printed, "more") == 0;
	case 3:
		return measure_request_add_pair(request, "c", "d") == 0;
	case 4:
		/* The same with a comma between. */
		item_free(&request->pairs[0].start);
		item_free(&request->pairs[0].stop);
		return item_set(&request->pairs[0].start, ITEM_PROBE, "a") == 0 &&
		       item_set(&request->pairs[0].stop, ITEM_PROBE, "b,c") == 0;
	case 5:
		return measure_request_set_text(&request->key, "arg1") == 0;
	case 6:
		return measure_request_set_text(&request->filter, NULL) == 0;
	case 7:
		return measure_request_set_text(&request->hist, "arg0") == 0;
	case 8:
		request->split = OCP_BY_THREAD;
		return true;
	case 9:
		request->depth++;
		return true;
	case 10:
		request->print_limit++;
		return true;
	case 11:
		request->children = false;
		return true;
	case 12:
		request->budget *= 2;
		return true;
	case 13:
		request->has_slower = true;
		return true;
	case 14:
		request->slower_ns++;
		return true;
	case 15:
		return measure_request_set_text(&request->by, "customer") == 0;
	case 16:
		return measure_request_add_pair(request, "fn:B.*", NULL) == 0;
	case 17:
		request->is_outermost = true;
		return true;
	default:
		return false;
	}
}

/* A pattern of functions is not a pair: it becomes one for each function that matches. */
TEST(patterns_are_timed)
{
	struct measure_request request = { 0 };

	assert_int_equal(measure_request_add_pair(&request, "fn:A\\..*", NULL), 0);
	assert_int_equal(request.n_pairs, 0);
	assert_int_equal(request.timed.n, 1);
	assert_false(measure_request_is_empty(&request));
	assert_true(measure_request_has_pairs(&request));
	assert_true(measure_request_has_code(&request));
	assert_true(measure_request_times_calls(&request));
	assert_null(measure_request_needs_bpf(&request));
	measure_request_free(&request);
	assert_false(measure_request_has_pairs(&request));
}

TEST(all_that_differs_is_seen)
{
	struct measure_request request = { 0 }, *other;
	unsigned int n = 0;

	fill_in(&request);
	for (bool has_more = true; has_more; n++) {
		other = measure_request_copy(&request);
		assert_non_null(other);
		has_more = change(other, n);
		if (measure_request_equal(&request, other) == has_more)
			fail_msg("difference %u", n);
		measure_request_drop(other);
	}
	assert_int_equal(n, 19);
	measure_request_free(&request);
}

TEST(parts_that_do_not_go_together)
{
	static struct item all = { ITEM_ALL_PROBES, NULL };
	static struct request_pair pair = { .start = { ITEM_PROBE, "a" },
					    .stop = { ITEM_PROBE, "b" } };
	static struct item function = { ITEM_FUNCTION, "fn:A.f" };
	static struct item c_function = { ITEM_C_FUNCTION, "c:f" };
	struct items some = { &all, 1 }, code = { &function, 1 }, c_code = { &c_function, 1 };
	static struct request_pair calls = { .start = { ITEM_FUNCTION, "fn:A.f" } };
	const struct {
		struct measure_request request;
		enum request_fault fault;
	} cases[] = {
		{ { .counted = some, .split = OCP_BY_SITE, .hist = "arg0" }, REQUEST_FINE },
		{ { .pairs = &pair, .n_pairs = 1, .depth = 2 }, REQUEST_FINE },
		{ { .pairs = &pair, .n_pairs = 1, .key = "arg0" }, REQUEST_FINE },
		{ { .printed = some, .has_print_limit = true }, REQUEST_FINE },
		{ { .printed = some, .split = OCP_BY_SITE }, REQUEST_SPLIT_WITHOUT_COUNT },
		{ { .counted = some, .depth = 2 }, REQUEST_DEPTH_WITHOUT_PAIR },
		{ { .counted = some, .key = "arg0" }, REQUEST_KEY_WITHOUT_PAIR },
		{ { .pairs = &pair, .n_pairs = 1, .depth = 2, .key = "arg0" },
		  REQUEST_DEPTH_AND_KEY },
		{ { .pairs = &pair, .n_pairs = 1, .depth = 2, .key = "none" }, REQUEST_FINE },
		{ { .counted = some, .key = "none" }, REQUEST_KEY_WITHOUT_PAIR },
		{ { .printed = some, .hist = "arg0" }, REQUEST_HIST_WITHOUT_COUNT },
		{ { .counted = some, .has_print_limit = true }, REQUEST_LIMIT_WITHOUT_PRINT },
		{ { .pairs = &pair, .n_pairs = 1, .has_slower = true, .has_print_limit = true },
		  REQUEST_FINE },
		{ { .counted = some, .has_slower = true }, REQUEST_SLOWER_WITHOUT_PAIR },
		{ { .pairs = &calls, .n_pairs = 1, .has_slower = true }, REQUEST_FINE },
		{ { .pairs = &pair, .n_pairs = 1, .has_slower = true, .stack_depth = 3 },
		  REQUEST_SLOWER_AND_STACK },
		{ { .counted = some, .by = "id", .hist = "id" }, REQUEST_FINE },
		{ { .pairs = &pair, .n_pairs = 1, .by = "id", .depth = 1 }, REQUEST_FINE },
		{ { .printed = some, .by = "id" }, REQUEST_BY_WITHOUT_PROBE },
		{ { .counted = some, .split = OCP_BY_SITE, .by = "id" }, REQUEST_BY_AND_SPLIT },
		{ { .pairs = &pair, .n_pairs = 1, .key = "id", .by = "id" }, REQUEST_FINE },
		{ { .counted = some, .stack_depth = 1, .by = "id" }, REQUEST_BY_AND_STACK },
		{ { .counted = code, .by = "id" }, REQUEST_FINE },
		{ { .counted = c_code, .by = "id" }, REQUEST_BY_AND_CODE },
		{ { .pairs = &calls, .n_pairs = 1, .by = "arg0" }, REQUEST_FINE },
		{ { .pairs = &calls, .n_pairs = 1, .counted = code, .is_outermost = true },
		  REQUEST_FINE },
		{ { .counted = code, .split = OCP_BY_THREAD, .is_outermost = true }, REQUEST_FINE },
		{ { .is_outermost = true }, REQUEST_OUTERMOST_WITHOUT_FUNCTION },
		{ { .counted = some, .is_outermost = true }, REQUEST_OUTERMOST_WITHOUT_FUNCTION },
		{ { .counted = c_code, .is_outermost = true }, REQUEST_OUTERMOST_WITHOUT_FUNCTION },
		{ { .pairs = &pair, .n_pairs = 1, .counted = code, .is_outermost = true },
		  REQUEST_OUTERMOST_WITHOUT_FUNCTION },
		{ { .counted = code, .is_outermost = true, .stack_depth = 2 },
		  REQUEST_OUTERMOST_AND_OTHERS },
		{ { .counted = code, .is_outermost = true, .filter = "arg0 > 1" },
		  REQUEST_OUTERMOST_AND_OTHERS },
		{ { .counted = code, .is_outermost = true, .by = "arg0" },
		  REQUEST_OUTERMOST_AND_OTHERS },
		{ { .counted = code, .is_outermost = true, .hist = "arg0" },
		  REQUEST_OUTERMOST_AND_OTHERS },
		{ { .counted = code, .printed = code, .is_outermost = true },
		  REQUEST_OUTERMOST_AND_OTHERS },
		{ { .pairs = &calls, .n_pairs = 1, .has_slower = true, .is_outermost = true },
		  REQUEST_OUTERMOST_AND_OTHERS },
		{ { .pairs = &pair, .n_pairs = 1, .has_slower = true, .by = "id" },
		  REQUEST_BY_AND_SLOWER },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(measure_request_check(&cases[i].request), cases[i].fault);
}

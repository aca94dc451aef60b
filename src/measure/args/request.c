// SPDX-License-Identifier: MIT
#include "measure/args/request.h"
#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void free_pair(struct request_pair *pair)
{
	item_free(&pair->start);
	item_free(&pair->stop);
}

void measure_request_free(struct measure_request *request)
{
	items_free(&request->counted);
	items_free(&request->printed);
	items_free(&request->timed);
	for (size_t i = 0; i < request->n_pairs; i++)
		free_pair(&request->pairs[i]);
	free(request->pairs);
	free(request->key);
	free(request->filter);
	free(request->hist);
	free(request->by);
	*request = (struct measure_request){ 0 };
}

bool measure_request_is_empty(const struct measure_request *request)
{
	return !request->counted.n && !request->printed.n && !measure_request_has_pairs(request);
}

bool measure_request_has_pairs(const struct measure_request *request)
{
	return request->n_pairs || request->timed.n;
}

bool measure_request_has_key(const struct measure_request *request)
{
	return request->key && strcmp(request->key, "none") != 0;
}

static bool is_code(const struct item *item)
{
	return item->kind != ITEM_PROBE && item->kind != ITEM_PROBE_REGEXP &&
	       item->kind != ITEM_ALL_PROBES;
}

static bool have_code(const struct items *items)
{
	for (size_t i = 0; i < items->n; i++)
		if (is_code(&items->list[i]))
			return true;
	return false;
}

bool measure_request_has_code(const struct measure_request *request)
{
	for (size_t i = 0; i < request->n_pairs; i++)
		if (is_code(&request->pairs[i].start) || is_code(&request->pairs[i].stop))
			return true;
	return have_code(&request->counted) || have_code(&request->printed) || request->timed.n;
}

bool measure_request_counts_only_code(const struct measure_request *request)
{
	for (size_t i = 0; i < request->counted.n; i++)
		if (!is_code(&request->counted.list[i]))
			return false;
	return request->counted.n && !request->printed.n && !measure_request_has_pairs(request);
}

/* ---- filling in ----------------------------------------------------------------------------- */

int measure_request_add_pair(struct measure_request *request, const char *start, const char *stop)
{
	struct request_pair *pair;

	if (!stop && item_kind_of_name(start) == ITEM_FUNCTION_REGEXP)
		return items_add(&request->timed, ITEM_FUNCTION_REGEXP, start);
	pair = array_add(request->pairs, request->n_pairs);
	if (!pair)
		return -ENOMEM;
	*pair = (struct request_pair){ .key_arg = -1, .compared_arg = -1 };
	if (item_set(&pair->start, item_kind_of_name(start), start) ||
	    item_set(&pair->stop, stop ? item_kind_of_name(stop) : ITEM_PROBE, stop)) {
		free_pair(pair);
		request->n_pairs--;
		return -ENOMEM;
	}
	return 0;
}

int measure_request_set_text(char **to, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

/* ---- copies --------------------------------------------------------------------------------- */

static int copy_parts(struct measure_request *to, const struct measure_request *from)
{
	int err = items_copy(&to->counted, &from->counted);

	if (!err)
		err = items_copy(&to->printed, &from->printed);
	if (!err)
		err = items_copy(&to->timed, &from->timed);
	for (size_t i = 0; !err && i < from->n_pairs; i++)
		err = measure_request_add_pair(to, from->pairs[i].start.text,
					       from->pairs[i].stop.text);
	if (!err)
		err = measure_request_set_text(&to->key, from->key);
	if (!err)
		err = measure_request_set_text(&to->filter, from->filter);
	if (!err)
		err = measure_request_set_text(&to->hist, from->hist);
	if (!err)
		err = measure_request_set_text(&to->by, from->by);
	return err;
}

struct measure_request *measure_request_copy(const struct measure_request *request)
{
	struct measure_request *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = (struct measure_request){
		.split = request->split,
		.depth = request->depth,
		.stack_depth = request->stack_depth,
		.print_limit = request->print_limit,
		.has_print_limit = request->has_print_limit,
		.has_slower = request->has_slower,
		.slower_ns = request->slower_ns,
		.is_outermost = request->is_outermost,
		.spans = request->spans,
		.children = request->children,
		.budget = request->budget,
		.has_no_budget = request->has_no_budget,
	};
	if (copy_parts(copy, request) == 0)
		return copy;
	measure_request_drop(copy);
	return NULL;
}

void measure_request_drop(struct measure_request *copy)
{
	if (!copy)
		return;
	measure_request_free(copy);
	free(copy);
}

/* ---- questions ------------------------------------------------------------------------------ */

static bool equal_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool equal_pairs(const struct measure_request *a, const struct measure_request *b)
{
	for (size_t i = 0; a->n_pairs == b->n_pairs && i < a->n_pairs; i++)
		if (!item_equal(&a->pairs[i].start, &b->pairs[i].start) ||
		    !item_equal(&a->pairs[i].stop, &b->pairs[i].stop))
			return false;
	return a->n_pairs == b->n_pairs;
}

bool measure_request_equal(const struct measure_request *a, const struct measure_request *b)
{
	return items_equal(&a->counted, &b->counted) && items_equal(&a->printed, &b->printed) &&
	       items_equal(&a->timed, &b->timed) && equal_pairs(a, b) && a->split == b->split &&
	       a->depth == b->depth && a->stack_depth == b->stack_depth &&
	       a->print_limit == b->print_limit && a->has_print_limit == b->has_print_limit &&
	       a->children == b->children && a->has_slower == b->has_slower &&
	       a->slower_ns == b->slower_ns && a->is_outermost == b->is_outermost &&
	       a->budget == b->budget && a->has_no_budget == b->has_no_budget &&
	       equal_texts(a->key, b->key) && equal_texts(a->filter, b->filter) &&
	       equal_texts(a->hist, b->hist) && equal_texts(a->by, b->by);
}

bool measure_request_times_calls(const struct measure_request *request)
{
	for (size_t i = 0; i < request->n_pairs; i++)
		if (request_pair_is_calls(&request->pairs[i]))
			return true;
	return request->timed.n;
}

bool measure_request_walks(const struct measure_request *request)
{
	return request->stack_depth || request->is_outermost;
}

/* ---- faults --------------------------------------------------------------------------------- */

/* Return true if ITEM names code that has no arguments, or none that can be read. */
static bool lacks_args(const struct item *item)
{
	return item->text && is_code(item) && item->kind != ITEM_FUNCTION &&
	       item->kind != ITEM_FUNCTION_REGEXP;
}

static bool has_code_without_args(const struct measure_request *request)
{
	for (size_t i = 0; i < request->counted.n; i++)
		if (lacks_args(&request->counted.list[i]))
			return true;
	for (size_t i = 0; i < request->printed.n; i++)
		if (lacks_args(&request->printed.list[i]))
			return true;
	for (size_t i = 0; i < request->n_pairs; i++)
		if (lacks_args(&request->pairs[i].start) || lacks_args(&request->pairs[i].stop))
			return true;
	return false;
}

static bool is_function(const struct item *item)
{
	return item->kind == ITEM_FUNCTION || item->kind == ITEM_FUNCTION_REGEXP;
}

/* Return true if REQUEST counts and times functions of OCaml, and nothing else. */
static bool measures_only_functions(const struct measure_request *request)
{
	for (size_t i = 0; i < request->counted.n; i++)
		if (!is_function(&request->counted.list[i]))
			return false;
	for (size_t i = 0; i < request->n_pairs; i++)
		if (!request_pair_is_calls(&request->pairs[i]) ||
		    !is_function(&request->pairs[i].start))
			return false;
	return request->counted.n || measure_request_has_pairs(request);
}

static bool has_fault_with_by(const struct measure_request *request, enum request_fault fault)
{
	switch (fault) {
	case REQUEST_BY_WITHOUT_PROBE:
		return !request->counted.n && !measure_request_has_pairs(request);
	case REQUEST_BY_AND_SPLIT:
		return request->split != OCP_BY_PROBE;
	case REQUEST_BY_AND_STACK:
		return request->stack_depth;
	case REQUEST_BY_AND_SLOWER:
		return request->has_slower;
	case REQUEST_BY_AND_CODE:
		return has_code_without_args(request);
	default:
		return false;
	}
}

bool measure_request_has_fault(const struct measure_request *request, enum request_fault fault)
{
	switch (fault) {
	case REQUEST_SPLIT_WITHOUT_COUNT:
		return request->split != OCP_BY_PROBE && !request->counted.n;
	case REQUEST_DEPTH_WITHOUT_PAIR:
		return request->depth && !measure_request_has_pairs(request);
	case REQUEST_KEY_WITHOUT_PAIR:
		return request->key && !measure_request_has_pairs(request);
	case REQUEST_DEPTH_AND_KEY:
		return request->depth && measure_request_has_key(request);
	case REQUEST_HIST_WITHOUT_COUNT:
		return request->hist && !request->counted.n;
	case REQUEST_SLOWER_WITHOUT_PAIR:
		return request->has_slower && !measure_request_has_pairs(request);
	case REQUEST_SLOWER_AND_STACK:
		return request->has_slower && request->stack_depth;
	case REQUEST_OUTERMOST_WITHOUT_FUNCTION:
		return request->is_outermost && !measures_only_functions(request);
	case REQUEST_OUTERMOST_AND_OTHERS:
		return request->is_outermost &&
		       (request->printed.n || request->has_slower || request->stack_depth ||
			request->filter || request->hist || request->by);
	case REQUEST_LIMIT_WITHOUT_PRINT:
		return request->has_print_limit && !request->printed.n && !request->has_slower;
	case REQUEST_STACK_WITHOUT_PROBE:
		return request->stack_depth && measure_request_is_empty(request);
	case REQUEST_STACK_AND_SPLIT:
		return request->stack_depth &&
		       (request->split == OCP_BY_THREAD || request->split == OCP_BY_PROCESS);
	default:
		return request->by && has_fault_with_by(request, fault);
	}
}

enum request_fault measure_request_check(const struct measure_request *request)
{
	for (enum request_fault fault = REQUEST_FINE + 1; fault < REQUEST_FAULTS; fault++)
		if (measure_request_has_fault(request, fault))
			return fault;
	return REQUEST_FINE;
}

/* ---- engines -------------------------------------------------------------------------------- */

bool engine_choice_read(const char *text, enum engine_choice *choice)
{
	static const char *const names[] = {
		[ENGINE_BPF] = "bpf",
		[ENGINE_INSIDE] = "inside",
		[ENGINE_AUTO] = "auto",
	};

	for (size_t i = ENGINE_BPF; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i]) == 0) {
			*choice = (enum engine_choice)i;
			return true;
		}
	return false;
}

bool measure_request_counts_c(const struct measure_request *request)
{
	for (size_t i = 0; i < request->counted.n; i++)
		if (request->counted.list[i].kind == ITEM_C_FUNCTION)
			return true;
	return false;
}

static bool is_ocaml_function(const struct item *item)
{
	return item->kind == ITEM_FUNCTION || item->kind == ITEM_FUNCTION_REGEXP;
}

/* Return true if the engine inside can time PAIR: calls, or between probes and functions. */
static bool can_be_timed_inside(const struct request_pair *pair)
{
	if (request_pair_is_calls(pair))
		return is_ocaml_function(&pair->start) || pair->start.kind == ITEM_GC_PHASE;
	return (is_ocaml_function(&pair->start) || !is_code(&pair->start)) &&
	       (is_ocaml_function(&pair->stop) || !is_code(&pair->stop));
}

/* Return true if code is printed other than OCaml functions that may write events. */
static bool prints_code_for_bpf(const struct measure_request *request)
{
	for (size_t i = 0; i < request->printed.n; i++) {
		const struct item *item = &request->printed.list[i];

		if (is_code(item) && !(request->event_bytes && is_ocaml_function(item)))
			return true;
	}
	return false;
}

/*
 * Return true if code is measured other than the calls of functions and the lines, which are
 * counted, and pairs that can be timed inside.
 */
static bool has_code_for_bpf(const struct measure_request *request)
{
	for (size_t i = 0; i < request->n_pairs; i++)
		if (!can_be_timed_inside(&request->pairs[i]))
			return true;
	for (size_t i = 0; i < request->counted.n; i++) {
		const struct item *item = &request->counted.list[i];

		if (item->kind == ITEM_NOTE)
			return true;
	}
	return false;
}

const char *measure_request_needs_bpf(const struct measure_request *request)
{
	const struct {
		bool is_asked;
		const char *name;
	} needs[] = {
		{ request->hist, "--hist" },
		{ request->printed.n && !request->event_bytes, "--print" },
		{ request->has_slower && !request->event_bytes, "--slower" },
		{ request->stack_depth, "--stack" },
		{ request->is_outermost, "--outermost" },
		{ request->split == OCP_BY_THREAD, "--by-thread" },
		{ request->children, "--children" },
		{ has_code_for_bpf(request), "note:, times of c: and pairs of lines or phases" },
		{ prints_code_for_bpf(request), "hits of c:, note: and lines" },
	};

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (needs[i].is_asked)
			return needs[i].name;
	return NULL;
}

const char *measure_request_watch_needs_bpf(const struct measure_request *request)
{
	/* A jump at the entry of a C function is for a user who knows of it: see window.h. */
	return measure_request_counts_c(request) ? "c:" : measure_request_needs_bpf(request);
}

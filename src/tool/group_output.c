// SPDX-License-Identifier: MIT
#include "tool/group_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/search.h"
#include "cli/cli.h"
#include "cli/pair_note.h"
#include "measure/by_value.h"
#include "tool/json.h"

enum { TOP_GROUPS = 20, MIN_VALUE_WIDTH = 16, OTHERS_BYTES = 80 };

/* ---- tables --------------------------------------------------------------------------------- */

/* The groups of one probe or pair in the list of a sample. */
struct group_run {
	const struct value_group *list;
	size_t n;
};

/* A row to sort: larger weights come first, and equal ones stay in the order of the sample. */
struct weighted_group {
	uint64_t weight;
	const struct value_group *group;
};

static int compare_weights(const void *a, const void *b)
{
	const struct weighted_group *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return COMPARE(x->group, y->group);
}

static uint64_t weight_of(const struct table_view *view, const struct value_group *group)
{
	struct ocp_pair pair;

	if (!group->times || (view->has_order && view->order == ORDER_HITS))
		return group->hits;
	if (!view->has_order)
		return group->times->sum_ns;
	pair = value_group_pair(group);
	return ocp_pair_quantile_ns(&pair, 0.99);
}

/*
 * The last row of a table: rows below the top, and values that did not fit into the kernel's map.
 */
struct others {
	size_t n;      /* number of known values */
	bool has_more; /* there are unknown values too */
	struct value_group sum;
	struct group_times times;
};

static void add_other(struct others *others, const struct value_group *group)
{
	struct group_times *to = &others->times;
	const struct group_times *from = group->times;

	others->n += !group->is_others;
	others->has_more |= group->is_others;
	if (from && (!others->sum.hits || from->min_ns < to->min_ns))
		to->min_ns = from->min_ns;
	others->sum.hits += group->hits;
	if (!from)
		return;
	others->sum.times = to;
	to->sum_ns += from->sum_ns;
	to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

static const char *others_text(const struct others *others, char text[OTHERS_BYTES])
{
	if (!others->has_more)
		snprintf(text, OTHERS_BYTES, "others (%zu value%s)", others->n, plural(others->n));
	else if (others->n)
		snprintf(text, OTHERS_BYTES, "others (%zu value%s, and those without room)",
			 others->n, plural(others->n));
	else
		snprintf(text, OTHERS_BYTES, "others (values without room)");
	return text;
}

static void print_group_heading(const struct report *report, const struct group_run *run,
				const char *arg, int width)
{
	const struct ocp_pair *pair =
		run->list->times ? ocp_sample_pair(report->sample, run->list->number) : NULL;
	char name[512];

	putchar('\n');
	if (pair) {
		pair_name(name, sizeof(name), pair->start, pair->stop);
		printf("%s by %s\n%-*s %12s %8s %8s %8s %8s %8s %10s\n", name, arg, width, arg,
		       "count", "mean", "min", "p50", "p99", "max", "sum");
	} else {
		printf("%s by %s\n%-*s %14s %14s\n", run->list->probe, arg, width, arg, "hits",
		       "hits/s");
	}
}

static void print_group_row(const struct report *report, const char *text, int width,
			    const struct value_group *group)
{
	char time[TIME_BYTES];
	struct ocp_pair pair;

	if (!group->times) {
		printf("%-*s %14" PRIu64 " %14.1f\n", width, text, group->hits,
		       report_rate(report, group->hits));
		return;
	}
	pair = value_group_pair(group);
	printf("%-*s %12" PRIu64, width, text, pair.count);
	printf(" %8s", print_time(time, (double)pair.sum_ns / (double)pair.count));
	printf(" %8s", print_time(time, (double)pair.min_ns));
	printf(" %8s", print_time(time, (double)ocp_pair_quantile_ns(&pair, 0.5)));
	printf(" %8s", print_time(time, (double)ocp_pair_quantile_ns(&pair, 0.99)));
	printf(" %8s", print_time(time, (double)pair.max_ns));
	printf(" %10s\n", print_time(time, (double)pair.sum_ns));
}

/*
 * Fill ROWS with the groups of RUN, except the one for the remaining values, and sort them by
 * weight unless the order is by name. ROWS must have room for all groups of RUN. Return the number
 * of rows.
 */
static size_t sort_run(const struct report *report, const struct group_run *run,
		       struct weighted_group *rows)
{
	const struct table_view *view = report->view;
	size_t n = 0;

	for (size_t i = 0; i < run->n; i++)
		if (!run->list[i].is_others)
			rows[n++] = (struct weighted_group){ weight_of(view, &run->list[i]),
							     &run->list[i] };
	if (!view->has_order || view->order != ORDER_NAME)
		qsort(rows, n, sizeof(*rows), compare_weights);
	return n;
}

static void print_run(const struct report *report, const struct group_run *run, const char *arg)
{
	struct weighted_group *rows = calloc(run->n + 1, sizeof(*rows));
	char **texts = calloc(run->n + 1, sizeof(*texts)), last[OTHERS_BYTES];
	size_t n = rows && texts ? sort_run(report, run, rows) : 0, n_top = TOP_GROUPS;
	struct others others = { 0 };
	int width = MIN_VALUE_WIDTH;

	if (report->view->top)
		n_top = report->view->top;
	n_top = n < n_top ? n : n_top;
	for (size_t i = n_top; i < n; i++)
		add_other(&others, rows[i].group);
	if (run->list[run->n - 1].is_others)
		add_other(&others, &run->list[run->n - 1]);
	for (size_t i = 0; i < n_top; i++) {
		texts[i] = value_group_text(rows[i].group);
		if (texts[i] && (int)strlen(texts[i]) > width)
			width = (int)strlen(texts[i]);
	}
	if (others.sum.hits && (int)strlen(others_text(&others, last)) > width)
		width = (int)strlen(last);
	print_group_heading(report, run, arg, width);
	for (size_t i = 0; i < n_top; i++) {
		print_group_row(report, texts[i] ? texts[i] : "?", width, rows[i].group);
		free(texts[i]);
	}
	if (others.sum.hits)
		print_group_row(report, last, width, &others.sum);
	free(texts);
	free(rows);
}

static bool is_same_run(const struct value_group *a, const struct value_group *b)
{
	return !a->probe == !b->probe && a->number == b->number;
}

void print_groups(const struct report *report)
{
	const struct value_groups *groups = sample_value_groups(report->sample);
	size_t next;

	for (size_t i = 0; i < groups->n; i = next) {
		for (next = i;
		     next < groups->n && is_same_run(&groups->list[i], &groups->list[next]); next++)
			;
		print_run(report, &(const struct group_run){ &groups->list[i], next - i },
			  groups->arg);
	}
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Return BYTES as in printed hits: a string, or an object if the text is cut or is not UTF-8. */
static struct json_object *string_json(const struct value_group *group, const char *bytes, size_t n)
{
	const bool is_cut = value_group_is_cut(group);
	const size_t n_text = utf8_bytes(bytes, n, is_cut);
	struct json_object *object;
	char hex[2 * MEASURE_BY_TEXT + 1];

	if (n_text <= n && !is_cut)
		return json_object_new_string_len(bytes, (int)n);
	object = json_object_new_object();
	for (size_t i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
	if (n_text <= n)
		json_object_object_add(object, "string",
				       json_object_new_string_len(bytes, (int)n_text));
	else
		json_add_string(object, "hex", hex);
	json_add_uint(object, "bytes", group->value.number);
	if (is_cut)
		json_add_bool(object, "cut", true);
	return object;
}

static struct json_object *int_json(const struct value_group *group)
{
	const int64_t number = (int64_t)group->value.number;
	const char byte = (char)number;

	if (group->type == OCP_ARG_BOOL && (number == 0 || number == 1))
		return json_object_new_boolean(number == 1);
	if (group->type == OCP_ARG_CHAR && number >= 0 && number <= UINT8_MAX)
		return string_json(group, &byte, 1);
	return json_object_new_int64(number);
}

/* Return the value of GROUP as JSON, or NULL, which is written as null, if there is no value. */
static struct json_object *value_json(const struct value_group *group)
{
	const struct measure_by *by = &group->value;
	double real;

	switch (by->type) {
	case FILTER_TYPE_INT:
		return int_json(group);
	case FILTER_TYPE_FLOAT:
		memcpy(&real, &by->number, sizeof(real));
		return json_of_float(real);
	case FILTER_TYPE_STRING:
		return string_json(group, by->text,
				   by->number < MEASURE_BY_TEXT ? by->number : MEASURE_BY_TEXT);
	default:
		return NULL;
	}
}

static void add_times(struct json_object *object, const struct value_group *group)
{
	const struct ocp_pair pair = value_group_pair(group);

	json_add_uint(object, "count", pair.count);
	json_add_uint(object, "sum_ns", pair.sum_ns);
	json_add_double(object, "mean_ns", (double)pair.sum_ns / (double)pair.count);
	json_add_uint(object, "min_ns", pair.min_ns);
	json_add_uint(object, "max_ns", pair.max_ns);
	json_add_uint(object, "p50_ns", ocp_pair_quantile_ns(&pair, 0.5));
	json_add_uint(object, "p99_ns", ocp_pair_quantile_ns(&pair, 0.99));
}

static struct json_object *group_json(const struct report *report, const struct value_group *group,
				      const char *arg)
{
	struct json_object *object = json_object_new_object();
	const struct ocp_pair *pair =
		group->times ? ocp_sample_pair(report->sample, group->number) : NULL;

	if (pair) {
		json_add_string(object, "start", pair->start);
		json_add_string(object, "stop", pair->stop);
	} else {
		json_add_string(object, "name", group->probe);
	}
	json_add_string(object, "arg", arg);
	if (group->is_others)
		json_add_bool(object, "others", true);
	else
		json_object_object_add(object, "value", value_json(group));
	if (!group->is_others && group->value.type == FILTER_TYPE_UNREADABLE)
		json_add_string(object, "why", "cannot be read");
	if (!group->is_others && group->value.type == FILTER_TYPE_OTHER)
		json_add_string(object, "why", "neither a number nor a string");
	if (pair) {
		add_times(object, group);
		return object;
	}
	json_add_uint(object, "hits", group->hits);
	json_add_double(object, "hits_per_s", report_rate(report, group->hits));
	return object;
}

void add_groups_json(struct json_object *top, const struct report *report)
{
	const struct value_groups *groups = sample_value_groups(report->sample);
	struct json_object *array;

	if (!groups->arg[0])
		return;
	array = json_object_new_array();
	for (size_t i = 0; i < groups->n; i++)
		json_object_array_add(array, group_json(report, &groups->list[i], groups->arg));
	json_object_object_add(top, "groups", array);
}

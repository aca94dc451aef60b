// SPDX-License-Identifier: MIT
#include "measure/by_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "measure/args/value.h"
#include "measure/domain_pairs.h"
#include "measure/meter.h"

void value_groups_free(struct value_groups *groups)
{
	free(groups->list);
	free(groups->times);
	*groups = (struct value_groups){ 0 };
}

/* ---- order ---------------------------------------------------------------------------------- */

static int compare_u64(uint64_t a, uint64_t b)
{
	return COMPARE(a, b);
}

static int compare_strings(const struct measure_by *a, const struct measure_by *b)
{
	/*
	 * `text` is padded with zeros, so a string sorts before longer strings that begin with it.
	 */
	const int order = memcmp(a->text, b->text, sizeof(a->text));

	return order ? order : compare_u64(a->number, b->number);
}

static int compare_values(const struct measure_by *a, const struct measure_by *b)
{
	if (a->type != b->type)
		return compare_u64(a->type, b->type);
	switch (a->type) {
	case FILTER_TYPE_INT:
		return compare_u64(measure_ordered(a->number), measure_ordered(b->number));
	case FILTER_TYPE_FLOAT:
		return compare_u64(measure_ordered((uint64_t)filter_order(a->number)),
				   measure_ordered((uint64_t)filter_order(b->number)));
	case FILTER_TYPE_STRING:
		return compare_strings(a, b);
	default:
		return 0;
	}
}

int value_group_compare(const void *a, const void *b)
{
	const struct value_group *x = a, *y = b;
	int order;

	if (!x->probe != !y->probe)
		return x->probe ? -1 : 1;
	order = x->probe ? strcmp(x->probe, y->probe) : 0;
	if (order)
		return order;
	if (x->number != y->number)
		return compare_u64(x->number, y->number);
	if (x->is_others != y->is_others)
		return x->is_others ? 1 : -1;
	return compare_values(&x->value, &y->value);
}

/* ---- made from the engine's reading --------------------------------------------------------- */

static int allocate_value_groups(struct ocp_ctx *ctx, struct value_groups *groups, size_t n)
{
	*groups = (struct value_groups){
		.list = calloc(n + 1, sizeof(*groups->list)),
	};
	return groups->list ? 0 : ctx_no_memory(ctx);
}

static void copy_times(struct group_times *to, const struct measure_by_times *from)
{
	to->sum_ns = from->sum_ns;
	to->min_ns = ~from->min_ns_not;
	to->max_ns = from->max_ns;
	memcpy(to->buckets, from->buckets, sizeof(to->buckets));
}

/*
 * METER groups by the value of an argument. Return the type of this argument at the starts of PAIR.
 */
static enum ocp_arg_type type_at_start(const struct ocp_meter *meter, size_t pair)
{
	const ptrdiff_t probe =
		site_table_find(&meter->table, meter->request.pairs[pair].start.text);

	return probe < 0 ? OCP_ARG_ANY : meter->table.probes[probe].by_type;
}

static void name_argument(const struct arg_requests *requests, struct value_groups *groups)
{
	const unsigned int arg = (unsigned int)requests->by_arg;
	const char *name = arg_requests_name(requests, arg);

	if (name)
		snprintf(groups->arg, sizeof(groups->arg), "%s", name);
	else
		snprintf(groups->arg, sizeof(groups->arg), "arg%u", arg);
}

static int make_times(struct ocp_ctx *ctx, const struct engine_reading *reading,
		      struct value_groups *out)
{
	size_t n = 0;

	for (size_t i = 0; i < reading->n_groups; i++)
		n += reading->groups[i].times != NULL;
	out->times = calloc(n + 1, sizeof(*out->times));
	return out->times ? 0 : ctx_no_memory(ctx);
}

int value_groups_make(const struct ocp_meter *meter, const struct engine_reading *reading,
		      struct value_groups *out)
{
	int err = allocate_value_groups(meter->ctx, out, reading->n_groups);
	size_t n_times = 0;

	if (meter->arg_requests.by_arg < 0)
		return err;
	if (!err)
		err = make_times(meter->ctx, reading, out);
	for (size_t i = 0; !err && i < reading->n_groups; i++) {
		const struct engine_group *read = &reading->groups[i];
		const size_t number = read->value.what;
		struct value_group *group = &out->list[out->n];

		if (number >= (read->times ? meter->request.n_pairs : meter->table.n_probes))
			continue;
		out->n++;
		*group = (struct value_group){
			.probe = read->times ? NULL : meter->table.probes[number].name,
			.number = number,
			.is_others = read->is_others,
			.value = read->value,
			.type = read->times ? type_at_start(meter, number)
					    : meter->table.probes[number].by_type,
			.hits = read->hits,
			.times = read->times ? &out->times[n_times++] : NULL,
		};
		if (read->times)
			copy_times(group->times, read->times);
	}
	name_argument(&meter->arg_requests, out);
	if (out->n)
		qsort(out->list, out->n, sizeof(*out->list), value_group_compare);
	return err;
}

bool value_groups_has_probe(const struct ocp_meter *meter, const char *probe)
{
	const ptrdiff_t at = site_table_find(&meter->table, probe);

	return at >= 0 && meter->table.probes[at].is_grouped;
}

/* ---- differences ---------------------------------------------------------------------------- */

struct ocp_pair value_group_pair(const struct value_group *group)
{
	return (struct ocp_pair){
		.start = "",
		.stop = "",
		.count = group->hits,
		.starts = group->hits,
		.sum_ns = group->times->sum_ns,
		.min_ns = group->times->min_ns,
		.max_ns = group->times->max_ns,
		.buckets = group->times->buckets,
	};
}

/*
 * Set the times of GROUP to LATER minus the times of OLD, or to LATER if OLD is NULL. The minimum
 * and maximum of a difference come from its histogram, so they have only the precision of a bucket.
 */
static void subtract_times(struct value_group *group, const struct group_times *later,
			   const struct value_group *old)
{
	struct ocp_pair pair;

	*group->times = *later;
	if (!old)
		return;
	group->times->sum_ns -= old->times->sum_ns;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		group->times->buckets[i] -= old->times->buckets[i];
	pair = value_group_pair(group);
	pair_find_extremes(&pair);
	group->times->min_ns = pair.min_ns;
	group->times->max_ns = pair.max_ns;
}

int value_groups_subtract(struct ocp_ctx *ctx, const struct value_groups *later,
			  const struct value_groups *earlier, struct value_groups *out)
{
	size_t n_times = 0;
	int err = allocate_value_groups(ctx, out, later->n);

	for (size_t i = 0; i < later->n; i++)
		n_times += later->list[i].times != NULL;
	out->times = calloc(n_times + 1, sizeof(*out->times));
	if (err || !out->times)
		return ctx_no_memory(ctx);
	memcpy(out->arg, later->arg, sizeof(out->arg));
	n_times = 0;
	for (size_t i = 0; i < later->n; i++) {
		const struct value_group *new = &later->list[i], *old = NULL;
		struct value_group *group = &out->list[out->n];

		if (earlier->n)
			old = bsearch(new, earlier->list, earlier->n, sizeof(*new),
				      value_group_compare);
		*group = *new;
		group->hits -= old ? old->hits : 0;
		if (!group->hits)
			continue;
		out->n++;
		if (!new->times)
			continue;
		group->times = &out->times[n_times++];
		subtract_times(group, new->times, old);
	}
	return 0;
}

/* ---- text ----------------------------------------------------------------------------------- */

bool value_group_is_cut(const struct value_group *group)
{
	return group->value.type == FILTER_TYPE_STRING && group->value.number > MEASURE_BY_TEXT;
}

static struct value to_value(const struct value_group *group)
{
	const struct measure_by *by = &group->value;
	struct value value = { .kind = OCP_UNREADABLE };

	switch (by->type) {
	case FILTER_TYPE_INT:
		value.kind = OCP_INT;
		value.number = (int64_t)by->number;
		break;
	case FILTER_TYPE_FLOAT:
		value.kind = OCP_FLOAT;
		memcpy(&value.real, &by->number, sizeof(value.real));
		break;
	case FILTER_TYPE_STRING:
		value.kind = OCP_STRING;
		value.bytes = by->text;
		value.is_cut = value_group_is_cut(group);
		value.n_bytes = value.is_cut ? MEASURE_BY_TEXT : by->number;
		value.size = by->number;
		break;
	default:
		break;
	}
	return value;
}

char *value_group_text(const struct value_group *group)
{
	const struct value value = to_value(group);
	char *text = NULL;
	size_t n;
	FILE *out;

	if (value.kind == OCP_UNREADABLE)
		return strdup(group->value.type == FILTER_TYPE_OTHER
				      ? "? (neither a number nor a string)"
			      : group->value.type == FILTER_TYPE_NOT_INT ? "? (not an int)"
									 : "? (cannot be read)");
	out = open_memstream(&text, &n);
	if (!out)
		return NULL;
	value_write(out, &value, group->type);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

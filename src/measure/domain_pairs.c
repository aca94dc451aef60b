// SPDX-License-Identifier: MIT
#include "measure/domain_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "measure/meter.h"

void meter_split_by_domain(struct ocp_meter *meter, const struct engine_domains *domains)
{
	meter->domains = *domains;
}

void domain_pairs_free(struct domain_pairs *pairs)
{
	free(pairs->list);
	*pairs = (struct domain_pairs){ 0 };
}

static int allocate_domain_pairs(struct ocp_ctx *ctx, struct domain_pairs *pairs, size_t n)
{
	*pairs = (struct domain_pairs){ .list = calloc(n + 1, sizeof(*pairs->list)), .n = n };
	return pairs->list ? 0 : ctx_no_memory(ctx);
}

static int compare_domain_pairs(const void *a, const void *b)
{
	const struct domain_pair *x = a, *y = b;

	if (x->pair != y->pair)
		return COMPARE(x->pair, y->pair);
	return COMPARE(x->domain, y->domain);
}

/* Set the histogram pointers of all rows. Call this after rows have moved. */
static void point_to_buckets(struct domain_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++)
		pairs->list[i].times.buckets = pairs->list[i].buckets;
}

int domain_pairs_make(const struct ocp_meter *meter, const struct engine_reading *reading,
		      struct domain_pairs *out)
{
	int err = allocate_domain_pairs(meter->ctx, out, reading->n_domain_pairs);

	out->n = 0;
	for (size_t i = 0; !err && i < reading->n_domain_pairs; i++) {
		const struct engine_domain_pair *read = &reading->domain_pairs[i];
		struct domain_pair *row = &out->list[out->n];

		if (read->pair >= meter->n_pairs)
			continue;
		out->n++;
		row->pair = read->pair;
		row->domain = read->domain;
		row->times = (struct ocp_pair){
			.start = meter->pairs[read->pair].start,
			.stop = "",
			.starts = read->times.count,
			.count = read->times.count,
			.sum_ns = read->times.sum_ns,
			.min_ns = read->times.min_ns,
			.max_ns = read->times.max_ns,
		};
		memcpy(row->buckets, read->times.buckets, sizeof(row->buckets));
	}
	if (out->n)
		qsort(out->list, out->n, sizeof(*out->list), compare_domain_pairs);
	point_to_buckets(out);
	return err;
}

void pair_find_extremes(struct ocp_pair *pair)
{
	pair->min_ns = pair->max_ns = 0;
	for (size_t i = OCP_BUCKETS; i-- > 0;)
		if (pair->buckets[i])
			pair->min_ns = ocp_bucket_start(i);
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		if (pair->buckets[i])
			pair->max_ns = ocp_bucket_start(i + 1) - 1;
}

static void subtract(struct domain_pair *row, const struct domain_pair *old)
{
	row->times.starts -= old->times.starts;
	row->times.count -= old->times.count;
	row->times.sum_ns -= old->times.sum_ns;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		row->buckets[i] -= old->buckets[i];
}

int domain_pairs_subtract(struct ocp_ctx *ctx, const struct domain_pairs *later,
			  const struct domain_pairs *earlier, struct domain_pairs *out)
{
	int err = allocate_domain_pairs(ctx, out, later->n);

	if (err)
		return err;
	if (later->n)
		memcpy(out->list, later->list, later->n * sizeof(*out->list));
	point_to_buckets(out);
	for (size_t i = 0; i < out->n; i++) {
		const struct domain_pair *old =
			earlier->n ? bsearch(&out->list[i], earlier->list, earlier->n,
					     sizeof(*out->list), compare_domain_pairs)
				   : NULL;

		if (old)
			subtract(&out->list[i], old);
		pair_find_extremes(&out->list[i].times);
	}
	return 0;
}

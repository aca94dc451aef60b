// SPDX-License-Identifier: MIT
/* What the engine `inside` costs. */
#include "change/inside/own_cost.h"
#include "measure/engine/engine_inside.h"

/* Measure the cost of a hit that writes an event, for hits of every kind. */
static int costs_of_events(struct ocp_ctx *ctx, struct ocp_costs *costs)
{
	struct own_cost cost;
	int err = own_cost_measure(ctx, OWN_COST_RECORDING_ARGS, 0, 0, &cost);

	*costs = (struct ocp_costs){ .cost_per_hit_ns = cost.hit_ns,
				     .cost_per_paired_hit_ns = cost.hit_ns };
	return err;
}

/* Return which timing to measure: by key or by thread, and with groups if SPEC has some. */
static enum own_cost_of timing_of(const struct engine_spec *spec, bool by_key)
{
	if (spec->by.is_on)
		return by_key ? OWN_COST_TIMING_GROUPS_BY_KEY : OWN_COST_TIMING_GROUPS;
	return by_key ? OWN_COST_TIMING_BY_KEY : OWN_COST_TIMING;
}

/*
 * Measure counting and timing separately, because counting costs only a tenth of timing. Measure
 * timing by key if a pair is matched by key or by frame, because this costs more than timing by
 * thread. A window costs less than a site; if there are both, use the cost of a site for all.
 */
int inside_costs(struct ocp_ctx *ctx, const struct engine_spec *spec, struct ocp_costs *costs)
{
	struct own_cost counting, timing = { 0 };
	size_t n_comparisons = 0;
	bool by_key = false;
	int err;

	if (spec->request.event_bytes)
		return costs_of_events(ctx, costs);
	for (__u32 i = 0; spec->filter && i < spec->filter->n_ops; i++)
		n_comparisons += spec->filter->ops[i].kind == FILTER_NUMBER;
	err = own_cost_measure(ctx,
			       spec->by.is_on	    ? OWN_COST_GROUPING
			       : spec->only_windows ? OWN_COST_COUNTING_WINDOWS
						    : OWN_COST_COUNTING,
			       0, n_comparisons, &counting);

	for (size_t i = 0; i < spec->n_roles; i++)
		by_key |= spec->roles[i].is_keyed ||
			  (spec->roles[i].is_frame && !spec->times_only_phases);
	if (!err && spec->request.n_pairs)
		err = own_cost_measure(ctx, timing_of(spec, by_key), spec->request.depth,
				       n_comparisons, &timing);
	*costs = (struct ocp_costs){ .cost_per_hit_ns = counting.hit_ns,
				     .cost_per_paired_hit_ns = timing.hit_ns,
				     .empty_pair_ns = timing.empty_pair_ns };
	return err;
}

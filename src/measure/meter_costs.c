// SPDX-License-Identifier: MIT
/*
 * What measuring costs: starts the calibration, and returns an estimate before the attach and the
 * calibrated costs after it.
 */
#include <errno.h>
#include <stdio.h>

#include "measure/meter.h"

static size_t count_stepped(const struct site_table *table)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_sites; i++)
		n += table->sites[i].site && table->sites[i].is_stepped;
	return n;
}

void meter_start_calibration(struct ocp_meter *meter)
{
	if (!meter->calibration && !meter->ops->has_no_costs)
		meter->calibration = calibration_start(meter->ops, &meter->spec,
						       count_stepped(&meter->table) != 0);
}

/*
 * Start only if functions are requested: most of their exits are single-stepped, so that an
 * estimate will be needed. Do not start if hits are filtered or printed or have a histogram: the
 * engine then needs the arguments, which are known only when the sites are known.
 */
void meter_start_calibration_early(struct ocp_meter *meter)
{
	const struct arg_requests *requests = &meter->arg_requests;
	const struct engine_role role = { .is_keyed = requests->key_arg >= 0 };
	const struct engine_spec spec = { .split = meter->split,
					  .roles = &role,
					  .n_roles = 1,
					  .n_pairs = meter->n_pairs,
					  .depth = meter->depth };

	if (!meter->calibration && meter_asks_for_code(meter) && !requests->has_filter &&
	    requests->hist_arg < 0 && selection_is_empty(&requests->printed) && !requests->slower)
		meter->calibration = calibration_start(meter->ops, &spec, true);
}

void ocp_meter_expect_estimate(struct ocp_meter *meter)
{
	meter->wants_estimate = true;
}

int ocp_meter_estimate(struct ocp_meter *meter, struct ocp_estimate *estimate)
{
	struct ocp_costs costs = { 0 };

	if (!meter->engine)
		return ctx_error(meter->ctx, -EINVAL, "measuring: not opened yet");
	*estimate = (struct ocp_estimate){ .n_sites = site_table_count(&meter->table),
					   .n_stepped = count_stepped(&meter->table) };
	if (!estimate->n_stepped || meter->is_pinned)
		return 0;
	meter_start_calibration(meter);
	if (meter->calibration && calibration_estimate(meter->calibration, &costs)) {
		estimate->cost_per_hit_ns = costs.cost_per_hit_ns;
		estimate->cost_per_stepped_hit_ns = costs.cost_per_stepped_hit_ns;
	}
	return 0;
}

bool ocp_estimate_text(const struct ocp_estimate *estimate, char text[OCP_ESTIMATE_BYTES])
{
	char which[64];

	if (!estimate->n_stepped)
		return false;
	if (estimate->n_stepped < estimate->n_sites)
		snprintf(which, sizeof(which), "%zu of %zu places are", estimate->n_stepped,
			 estimate->n_sites);
	else if (estimate->n_sites > 1)
		snprintf(which, sizeof(which), "all %zu places are", estimate->n_sites);
	else
		snprintf(which, sizeof(which), "the place is");
	if (estimate->cost_per_stepped_hit_ns > 0)
		snprintf(text, OCP_ESTIMATE_BYTES,
			 "%s single-stepped: %.1f us per hit, others %.1f us", which,
			 estimate->cost_per_stepped_hit_ns / 1e3, estimate->cost_per_hit_ns / 1e3);
	else
		snprintf(text, OCP_ESTIMATE_BYTES,
			 "%s single-stepped: ten times slower than others", which);
	return true;
}

static int ask_costs(struct ocp_meter *meter, bool wait, struct ocp_costs *costs)
{
	const char *why = "it was never attached, or there was no memory or thread for it";
	int err = -ENODATA;

	*costs = meter->pinned_costs;
	if (meter->pin_folder[0] || meter->is_found)
		return 0;
	if (meter->ops->has_no_costs)
		why = "its engine does not measure it";
	else if (meter->calibration)
		err = calibration_result(meter->calibration, wait, costs, &why);
	if (err == -EAGAIN)
		return ctx_error(meter->ctx, err, "the cost of measuring is not known yet");
	if (err)
		return ctx_error(meter->ctx, err, "the cost of measuring is not known: %s", why);
	/*
	 * A calibration that began early includes single-stepped sites, even if the meter has none.
	 */
	if (!count_stepped(&meter->table))
		costs->cost_per_stepped_hit_ns = costs->empty_stepped_pair_ns = 0;
	return 0;
}

bool meter_costs_so_far(struct ocp_meter *meter, struct ocp_costs *costs)
{
	if (!meter->calibration || !calibration_so_far(meter->calibration, costs))
		return false;
	if (!count_stepped(&meter->table))
		costs->cost_per_stepped_hit_ns = costs->empty_stepped_pair_ns = 0;
	return true;
}

int ocp_meter_costs(struct ocp_meter *meter, struct ocp_costs *costs)
{
	return ask_costs(meter, true, costs);
}

int ocp_meter_costs_now(struct ocp_meter *meter, struct ocp_costs *costs)
{
	return ask_costs(meter, false, costs);
}

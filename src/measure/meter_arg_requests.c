// SPDX-License-Identifier: MIT
/* Sets what a meter does with arguments, and tells the engine what it must know about them. */
#include <errno.h>

#include "measure/args/filter.h"
#include "measure/meter.h"
#include "measure/slower.h"

enum {
	/* room for 1361 records: more than a second at the default limit */
	LIMITED_PRINT_BYTES = 4 << 20,
	/* enough for 270 000 records a second, if they are taken every 20 ms */
	UNLIMITED_PRINT_BYTES = 16 << 20,
	SPARE_ARGS = 256, /* for files that are loaded later */
	SPARE_HISTOGRAMS = 16,
};

/* ---- the request ---------------------------------------------------------------------------- */

int ocp_meter_filter(struct ocp_meter *meter, const char *expr)
{
	struct arg_requests *requests = &meter->arg_requests;
	int err;

	if (requests->has_filter)
		return ctx_error(meter->ctx, -EINVAL, "filter '%s': only one filter is allowed",
				 expr);
	err = filter_parse(meter->ctx, expr, &requests->asked, &requests->filter,
			   &requests->filter_args);
	requests->has_filter = !err;
	return err;
}

static int set_arg(struct ocp_meter *meter, const char *what, const char *text, int *arg)
{
	int number = filter_parse_arg(meter->ctx, text, &meter->arg_requests.asked);

	if (number < 0)
		return number;
	if (*arg >= 0)
		return ctx_error(meter->ctx, -EINVAL, "%s '%s': only one is allowed", what, text);
	*arg = number;
	return 0;
}

int ocp_meter_set_key(struct ocp_meter *meter, const char *arg)
{
	return set_arg(meter, "key", arg, &meter->arg_requests.key_arg);
}

int ocp_meter_histogram(struct ocp_meter *meter, const char *arg)
{
	return set_arg(meter, "histogram", arg, &meter->arg_requests.hist_arg);
}

int meter_group_by(struct ocp_meter *meter, const char *arg)
{
	return set_arg(meter, "groups by", arg, &meter->arg_requests.by_arg);
}

int meter_print_item(struct ocp_meter *meter, const struct item *item)
{
	return selection_add(meter->ctx, &meter->arg_requests.printed, item);
}

int ocp_meter_print(struct ocp_meter *meter, const char *name)
{
	return meter_print_item(meter, &(struct item){ item_kind_of_name(name), name });
}

int ocp_meter_print_regexp(struct ocp_meter *meter, const char *re)
{
	return meter_print_item(meter, &(struct item){ ITEM_PROBE_REGEXP, re });
}

void ocp_meter_set_print_limit(struct ocp_meter *meter, uint64_t hits)
{
	meter->arg_requests.print_limit = hits;
}

void meter_set_slower(struct ocp_meter *meter, uint64_t ns)
{
	meter->arg_requests.slower = true;
	meter->arg_requests.slower_ns = ns;
}

/* ---- for the engine ------------------------------------------------------------------------- */

void meter_fill_spec(const struct ocp_meter *meter, struct engine_spec *spec)
{
	const struct arg_requests *requests = &meter->arg_requests;
	const size_t most = requests->n_histograms + SPARE_HISTOGRAMS;

	spec->filter = requests->has_filter ? &requests->filter : NULL;
	if (requests->hist_arg >= 0) {
		spec->hist_arg = (unsigned int)requests->hist_arg;
		spec->n_histograms = most < MAX_HISTOGRAMS ? most : MAX_HISTOGRAMS;
	}
	if (requests->by_arg >= 0)
		spec->by = (struct engine_by){ .is_on = true,
					       .arg = (unsigned int)requests->by_arg,
					       .max_hits = MEASURE_BY_MAX_HITS,
					       .max_times = MEASURE_BY_MAX_PAIRS };
	spec->prints = !selection_is_empty(&requests->printed);
	spec->slower = requests->slower;
	spec->slower_ns = requests->slower_ns;
	spec->print_limit = requests->print_limit;
	spec->print_bytes = requests->print_bytes   ? requests->print_bytes
			    : requests->print_limit ? LIMITED_PRINT_BYTES
						    : UNLIMITED_PRINT_BYTES;
	/* Records with stacks and records of slow pairs are larger. */
	if ((meter->stack_depth || requests->slower) && !requests->print_bytes)
		spec->print_bytes *= 2;
	spec->max_args = requests->table.n + requests->table.n / 4 + SPARE_ARGS;
}

void meter_fill_site(const struct ocp_meter *meter, const struct measured_site *measured,
		     struct engine_site *site)
{
	const struct measured_probe *probe = &meter->table.probes[measured->probe_index];

	site->args = measured->args;
	if (!measured->counts)
		return;
	site->is_filtered = arg_requests_filter(&meter->arg_requests, probe);
	site->is_printed = probe->is_printed;
	site->has_histogram = probe->has_histogram;
	site->histogram = probe->histogram;
	site->is_grouped = probe->is_grouped;
}

// SPDX-License-Identifier: MIT
/* A meter that counts inside of the process, and what it cannot count so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/plural.h"
#include "measure/engine/engine_inside.h"
#include "measure/found.h"
#include "measure/meter.h"
#include "measure/pin_meta.h"
#include "process/process.h"

void meter_use_inside(struct ocp_meter *meter)
{
	meter->ops = &engine_inside;
}

bool meter_is_inside(const struct ocp_meter *meter)
{
	return meter->ops == &engine_inside;
}

/* The sites of SITES that are not a nop and a call. */
static size_t count_unfit(const struct site_table *table)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_sites; i++) {
		const struct site *site = table->sites[i].site;

		n += site && (site->dormant || site->abi == SITE_ABI_CODE);
	}
	return n;
}

int meter_check_inside(const struct ocp_meter *meter)
{
	const size_t n_unfit = count_unfit(&meter->table);

	if (!meter_is_inside(meter))
		return 0;
	if (meter->program || meter->n_procs != 1)
		return ctx_error(meter->ctx, -ENOTSUP,
				 "the engine `inside` measures one process at a time");
	if (!site_table_count(&meter->table))
		return ctx_error(meter->ctx, -ENOTSUP,
				 "pid %d: has no probe yet that the engine `inside` can count",
				 (int)meter->procs[0]->pid);
	if (n_unfit)
		return ctx_error(
			meter->ctx, -ENOTSUP,
			"pid %d: %zu site%s dormant, which the engine `inside` cannot count",
			(int)meter->procs[0]->pid, n_unfit, n_unfit == 1 ? " is" : "s are");
	return 0;
}

bool meter_counts_in(const struct ocp_meter *meter, pid_t pid)
{
	return meter_is_inside(meter) && meter->engine &&
	       engine_inside_counts_in(meter->engine, pid);
}

bool meter_passes_over(const struct ocp_meter *meter, const struct measured_file *file)
{
	if (!meter_is_inside(meter) || !meter->is_attached)
		return false;
	ctx_log(meter->ctx, OCP_LOG_WARN,
		"%s: loaded later: the engine `inside` does not count its %zu site%s", file->name,
		file->n_sites, plural(file->n_sites));
	return true;
}

int meter_name_inside(struct ocp_meter *meter, const char *name)
{
	int err = pin_check_name_free(meter->ctx, name);

	if (!err)
		err = found_check_name_free(meter->ctx, name);
	if (!err)
		meter->kept_name = name;
	return err;
}

int meter_describe(struct ocp_meter *meter)
{
	struct ocp_costs costs = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	FILE *out;
	int err;

	if (!meter->ops->describe)
		return 0;
	out = open_memstream(&text, &bytes);
	if (!out)
		return ctx_no_memory(meter->ctx);
	meter_start_calibration(meter);
	/* The counts are valid without the costs. */
	ocp_meter_costs(meter, &costs);
	pin_meta_write(out, meter, &costs);
	err = fclose(out) ? ctx_no_memory(meter->ctx) : 0;
	if (!err)
		err = meter->ops->describe(meter->engine, meter->kept_name ? meter->kept_name : "",
					   text);
	free(text);
	return err;
}

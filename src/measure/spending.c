// SPDX-License-Identifier: MIT
#include "measure/spending.h"

#include <stdlib.h>

#include "measure/meter.h"

/* ---- costs ---------------------------------------------------------------------------------- */

uint64_t hit_sums_stepped(const struct hit_sums *sums)
{
	const uint64_t all = sums->all + sums->unlisted;

	if (!sums->stepped || sums->stepped == sums->all)
		return sums->stepped ? all : 0;
	return (uint64_t)((double)sums->stepped * ((double)all / (double)sums->all));
}

double hit_sums_cost_ns(const struct hit_sums *sums, const struct ocp_costs *costs)
{
	const double hits = (double)(sums->all + sums->unlisted);
	const double stepped = (double)hit_sums_stepped(sums), paired = (double)sums->paired;
	double ns = costs->cost_per_hit_ns;

	if (hits <= 0)
		return ns;
	/*
	 * The calibrated cost of a hit does not include the walk of the stack. The walks were
	 * timed: add their average.
	 */
	ns += (double)sums->walk_ns / hits;
	if (costs->cost_per_paired_hit_ns > 0)
		ns += (costs->cost_per_paired_hit_ns - costs->cost_per_hit_ns) * paired / hits;
	if (costs->cost_per_stepped_hit_ns <= 0)
		return ns;
	return ns + (costs->cost_per_stepped_hit_ns - costs->cost_per_hit_ns) * stepped / hits;
}

/* ---- reading -------------------------------------------------------------------------------- */

void meter_count_processes(struct ocp_meter *meter)
{
	meter->counts_processes = true;
}

static void sum_hits(const struct ocp_meter *meter, const struct engine_reading *reading,
		     struct hit_sums *sums)
{
	const struct site_table *table = &meter->table;

	*sums = (struct hit_sums){ .walk_ns = reading->walk_ns };
	for (size_t i = 0; i < table->n_sites; i++) {
		const struct measured_site *site = &table->sites[i];
		const uint64_t hits = reading->hits[i];

		if (site->file == NO_FILE)
			continue;
		sums->all += hits;
		sums->stepped += site->is_stepped ? hits : 0;
		sums->paired += table->probes[site->probe_index].n_roles ? hits : 0;
	}
	for (size_t i = 0; i < table->n_probes; i++)
		sums->all += table->probes[i].past_hits;
	sums->unlisted = reading->losses.filtered + reading->losses.passed_over;
}

/*
 * Set spending->processes from READING. If only one process is measured, the engine need not count
 * by process: this process has made all hits except those that were passed over, which other
 * processes have made.
 */
static int take_processes(const struct ocp_meter *meter, const struct engine_reading *reading,
			  struct spending *spending)
{
	const bool is_single = !reading->n_processes && !meter->spec.counts_processes &&
			       !meter_is_inside(meter) && meter->n_pids == 1;
	const size_t n = is_single ? 1 : reading->n_processes;

	spending->processes = calloc(n + 1, sizeof(*spending->processes));
	if (!spending->processes)
		return ctx_no_memory(meter->ctx);
	spending->n = n;
	for (size_t i = 0; i < reading->n_processes; i++)
		spending->processes[i] =
			(struct spending_process){ (pid_t)reading->processes[i].tgid,
						   reading->processes[i].hits };
	if (is_single)
		spending->processes[0] =
			(struct spending_process){ meter->pids[0],
						   spending->sums.all + reading->losses.filtered };
	return 0;
}

int meter_read_spending(struct ocp_meter *meter, struct spending *spending)
{
	struct engine_reading reading = {
		.only_hits = true,
		.hits = calloc(meter->table.n_sites + 1, sizeof(*reading.hits)),
	};
	int err;

	*spending = (struct spending){ 0 };
	if (!reading.hits)
		return ctx_no_memory(meter->ctx);
	err = meter->ops->read(meter->engine, &reading);
	if (!err) {
		sum_hits(meter, &reading, &spending->sums);
		err = take_processes(meter, &reading, spending);
	}
	free(reading.hits);
	free(reading.processes);
	return err;
}

void spending_free(struct spending *spending)
{
	free(spending->processes);
	*spending = (struct spending){ 0 };
}

// SPDX-License-Identifier: MIT
/*
 * Meters that count inside of processes: checks whether sites and processes can be counted inside,
 * warns of sites and processes that cannot, and writes the description by which other tools read
 * such a meter.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

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

bool meter_needs_kernel(const struct site *site)
{
	return site->dormant || (site->abi == SITE_ABI_CODE && !site->window);
}

static bool is_in_process(const struct measured_file *file, pid_t pid)
{
	for (size_t i = 0; i < file->n_pids; i++)
		if (file->pids[i] == pid)
			return true;
	return false;
}

/* Return -ENOTSUP if meter->procs[I] has no sites, or sites that cannot be counted inside. */
static int check_process(const struct ocp_meter *meter, size_t i)
{
	size_t n_sites = 0, n_unfit = 0;

	for (size_t f = 0; f < meter->table.n_files; f++) {
		const struct measured_file *file = &meter->table.files[f];

		if (file->is_gone || !is_in_process(file, meter->pids[i]))
			continue;
		n_sites += file->n_sites;
		for (size_t j = 0; j < file->n_sites; j++)
			n_unfit +=
				meter_needs_kernel(meter->table.sites[file->first_site + j].site);
	}
	return inside_process_check(meter->ctx, meter->procs[i]->pid, n_sites, n_unfit);
}

int meter_check_inside(const struct ocp_meter *meter)
{
	int err = 0;

	if (!meter_is_inside(meter))
		return 0;
	if (meter->program)
		return ctx_error(meter->ctx, -ENOTSUP,
				 "the engine `inside` measures processes, not programs");
	for (size_t i = 0; i < meter->n_procs; i++) {
		err = check_process(meter, i);
		if (!err)
			return 0;
	}
	return err;
}

int meter_check_all_inside(const struct ocp_meter *meter)
{
	int err = 0;

	for (size_t i = 0; !err && i < meter->n_procs; i++)
		err = check_process(meter, i);
	return err;
}

/* Warn of processes without sites: the engine attaches only to processes that have sites. */
void meter_tell_without_sites(const struct ocp_meter *meter)
{
	for (size_t i = 0; meter_is_inside(meter) && i < meter->n_procs; i++) {
		bool has_sites = false;

		for (size_t f = 0; f < meter->table.n_files; f++)
			has_sites |= is_in_process(&meter->table.files[f], meter->pids[i]);
		if (!has_sites && inside_process_check(meter->ctx, meter->procs[i]->pid, 0, 0))
			ctx_log(meter->ctx, OCP_LOG_WARN, "%s: it is not counted",
				ocp_error(meter->ctx));
	}
}

size_t meter_n_counted(const struct ocp_meter *meter)
{
	return meter_is_inside(meter) && meter->engine ? engine_inside_n_processes(meter->engine)
						       : meter->n_pids;
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

void meter_tell_late(const struct ocp_meter *meter, const struct new_file *from)
{
	struct stat st;

	if (!meter_is_inside(meter) || !meter->is_attached || !from->pid ||
	    fstat(from->prog->fd, &st) != 0)
		return;
	for (size_t i = 0; i < meter->table.n_files; i++) {
		const struct measured_file *file = &meter->table.files[i];

		if (!file->is_gone && file->n_sites && file->dev == st.st_dev &&
		    file->ino == st.st_ino && !is_in_process(file, from->pid))
			ctx_log(meter->ctx, OCP_LOG_WARN,
				"pid %d: has loaded %s later: the engine `inside` does not count "
				"it there",
				(int)from->pid, file->name);
	}
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

static int write_text(struct ocp_meter *meter, const struct ocp_costs *costs, char **text)
{
	*text = pin_meta_text(meter, costs);
	return *text ? 0 : ctx_no_memory(meter->ctx);
}

int meter_text(struct ocp_meter *meter, char **text)
{
	return write_text(meter, &(struct ocp_costs){ 0 }, text);
}

int meter_describe(struct ocp_meter *meter)
{
	struct ocp_costs costs = { 0 };
	char *text = NULL;
	int err;

	if (!meter->ops->describe)
		return 0;
	meter_start_calibration(meter);
	/* Ignore errors: the counts can be read without the costs. */
	ocp_meter_costs(meter, &costs);
	err = write_text(meter, &costs, &text);
	if (!err)
		err = meter->ops->describe(meter->engine, meter->kept_name ? meter->kept_name : "",
					   text);
	return err;
}

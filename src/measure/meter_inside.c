// SPDX-License-Identifier: MIT
/*
 * Meters that count inside of processes: checks whether sites and processes can be counted inside,
 * warns of sites and processes that cannot, and writes the description by which other tools read
 * such a meter.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/plural.h"
#include "measure/engine/engine_inside.h"
#include "measure/engine/inside_filters.h"
#include "measure/engine/inside_process.h"
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

/*
 * Set the error that the comparison OP is not possible at SITE of PROBE, for the reason FAULT or
 * because of the declared type TYPE of the argument, if it is not NULL.
 */
static int refuse_comparison(const struct ocp_meter *meter, const char *probe,
			     const struct filter_op *op, enum inside_filter_fault fault,
			     const char *type)
{
	const char *name = arg_requests_name(&meter->arg_requests, op->arg);
	char number[16];

	snprintf(number, sizeof(number), "arg%u", op->arg);
	if (!name)
		name = number;
	if (fault == INSIDE_FILTER_STRING)
		return ctx_error(meter->ctx, -ENOTSUP,
				 "probe '%s': the filter compares %s with a string, and the engine "
				 "`inside` compares ints",
				 probe, name);
	if (fault == INSIDE_FILTER_FOREIGN)
		return ctx_error(meter->ctx, -ENOTSUP,
				 "probe '%s': %s is not a value of OCaml, and the engine `inside` "
				 "compares ints of OCaml",
				 probe, name);
	if (fault == INSIDE_FILTER_PLACE)
		return ctx_error(meter->ctx, -ENOTSUP,
				 "probe '%s': the engine `inside` cannot read %s, which is neither "
				 "in a register nor on the stack",
				 probe, name);
	return ctx_error(meter->ctx, -ENOTSUP,
			 "probe '%s': %s is a %s, and the engine `inside` compares ints", probe,
			 name, type);
}

/* Check that the engine `inside` can evaluate the filter at SITE. */
static int check_filter_at(const struct ocp_meter *meter, const struct measured_site *site)
{
	const struct arg_requests *requests = &meter->arg_requests;
	const struct site_args *args = &requests->table.entries[site->args];
	const char *probe = meter->table.probes[site->probe_index].name;

	for (__u32 i = 0; i < requests->filter.n_ops; i++) {
		const struct filter_op *op = &requests->filter.ops[i];
		enum inside_filter_fault fault;
		enum ocp_arg_type type;

		if (op->kind != FILTER_NUMBER && op->kind != FILTER_STRING)
			continue;
		type = arg_requests_type(requests, op->arg, site->site->arg_names);
		fault = inside_filter_check(op, &args->args[op->arg]);
		if (fault != INSIDE_FILTER_FINE || type == OCP_ARG_FLOAT || type == OCP_ARG_STRING)
			return refuse_comparison(meter, probe, op, fault, ocp_arg_type_name(type));
	}
	return 0;
}

int meter_check_filter_inside(const struct ocp_meter *meter)
{
	const struct arg_requests *requests = &meter->arg_requests;
	int err = 0;

	for (size_t i = 0; !err && meter_is_inside(meter) && i < meter->table.n_sites; i++) {
		const struct measured_site *site = &meter->table.sites[i];

		if (site->file != NO_FILE && site->counts &&
		    arg_requests_filter(requests, &meter->table.probes[site->probe_index]))
			err = check_filter_at(meter, site);
	}
	return err;
}

/* Check that the engine `inside` can group the hits of SITE and the times that begin there. */
static int check_groups_at(const struct ocp_meter *meter, const struct measured_site *site)
{
	const struct arg_requests *requests = &meter->arg_requests;
	const unsigned int arg = (unsigned int)requests->by_arg;
	const struct arg_spec *spec = &requests->table.entries[site->args].args[arg];
	const char *probe = meter->table.probes[site->probe_index].name;
	const char *name = arg_requests_name(requests, arg);
	const enum ocp_arg_type type = arg_requests_type(requests, arg, site->site->arg_names);
	struct inside_place place;
	char number[16];

	snprintf(number, sizeof(number), "arg%u", arg);
	if (!name)
		name = number;
	if (type == OCP_ARG_FLOAT || type == OCP_ARG_STRING)
		return ctx_error(meter->ctx, -ENOTSUP,
				 "probe '%s': %s is a %s, and the engine `inside` groups by ints",
				 probe, name, ocp_arg_type_name(type));
	if (spec->type != ARG_VALUE)
		return ctx_error(meter->ctx, -ENOTSUP,
				 "probe '%s': %s is not a value of OCaml, and the engine `inside` "
				 "groups by ints of OCaml",
				 probe, name);
	if (!inside_place_of(spec, &place))
		return ctx_error(meter->ctx, -ENOTSUP,
				 "probe '%s': the engine `inside` cannot read %s, which is neither "
				 "in a register nor on the stack",
				 probe, name);
	return 0;
}

int meter_check_groups_inside(const struct ocp_meter *meter)
{
	int err = 0;

	for (size_t i = 0; !err && meter_is_inside(meter) && meter->arg_requests.by_arg >= 0 &&
			   i < meter->table.n_sites;
	     i++) {
		const struct measured_site *site = &meter->table.sites[i];
		const struct measured_probe *probe = &meter->table.probes[site->probe_index];

		if (site->file != NO_FILE && site->counts &&
		    (probe->is_grouped || arg_requests_group_pairs(&meter->arg_requests, probe)))
			err = check_groups_at(meter, site);
	}
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

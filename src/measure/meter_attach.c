// SPDX-License-Identifier: MIT
/*
 * Attaches to the files of an open meter, switches probes in them, and detaches from files that are
 * overwritten.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/populate.h"
#include "measure/meter.h"

/* ---- attaching ------------------------------------------------------------------------------ */

/*
 * Set the roles of OUT for SITE, a site of PROBE: see struct meter_end. If the calls of a function
 * do not nest in a thread (site.is_flat), and the function is in one pair only, its calls are
 * matched by thread, without frames.
 */
static void fill_roles(const struct measured_probe *probe, const struct site *site,
		       struct engine_site *out)
{
	const bool by_thread = site->is_flat && probe->n_roles == 1;
	const uint32_t calls = probe->first_role + probe->n_roles - 1; /* if probe->has_calls */

	out->first_role = probe->first_role;
	out->n_roles = probe->n_roles;
	if (site->abi != SITE_ABI_CODE || !probe->has_calls)
		return;
	if (by_thread && (site->events & (SITE_BEGINS | SITE_ENDS))) {
		out->first_role = calls + (site->events & SITE_ENDS ? 4 : 3);
		out->n_roles = 1;
	} else if (site->events & (SITE_ENDS | SITE_CONFIRMS)) {
		out->first_role = calls + (site->events & SITE_ENDS ? 1 : 2);
		out->n_roles = 1;
	} else if (!(site->events & SITE_BEGINS)) {
		out->n_roles--;
	} else if (!(site->events & SITE_COUNTS)) {
		out->first_role = calls;
		out->n_roles = 1;
	}
}

static int fill_engine_file(const struct ocp_meter *meter, const struct measured_file *file,
			    struct engine_site *sites, struct engine_file *engine_file)
{
	for (size_t i = 0; i < file->n_sites; i++) {
		const struct measured_site *measured = &meter->table.sites[file->first_site + i];
		const struct measured_probe *probe = &meter->table.probes[measured->probe_index];
		const struct site *site = measured->site;
		const struct elf_file *elf = file->prog->elf;

		sites[i] = (struct engine_site){
			.probe_index = measured->probe_index,
			.is_off = probe->is_off || file->is_lost || measured->is_left_out,
			.is_keyed = probe->is_counted && site_counts(site),
			.is_return = site->is_return,
			.needs_kernel = meter_needs_kernel(site),
			.needs_confirmation = site->events & SITE_IF_CONFIRMED,
			.condition = site->condition,
			.unless = site->unless,
			.frame_depth = site->frame_depth,
			.is_on_ocaml_stack = site->is_on_ocaml_stack,
		};
		fill_roles(probe, site, &sites[i]);
		meter_fill_site(meter, measured, &sites[i]);
		if (!elf_file_va_to_off(elf, site->va, &sites[i].nop_off))
			return ctx_error(meter->ctx, -EBADMSG, "%s: a site has no byte in the file",
					 file->name);
		/* The kernel cannot find a semaphore in .bss by a file offset. */
		if (site->tracer_semaphore_va &&
		    !elf_file_va_to_off(elf, site->tracer_semaphore_va, &sites[i].ref_ctr_off))
			sites[i].ref_ctr_off = 0;
	}
	*engine_file = (struct engine_file){
		.path = file->path,
		.name = file->name,
		.pids = meter->program ? NULL : file->pids,
		.n_pids = meter->program ? 0 : file->n_pids,
		.check_exe = meter->program &&
			     (file->prog != meter->program || meter->program_is_layered),
		.sites = sites,
		.n_sites = file->n_sites,
		.first_site = file->first_site,
		.args = meter->arg_requests.table.entries,
		.n_args = meter->arg_requests.table.n,
	};
	return 0;
}

static struct guarded guarded_in(const struct measured_file *file)
{
	return (struct guarded){ .name = file->name, .prog = file->prog, .code = file->code };
}

static int guard_file(struct ocp_meter *meter, struct measured_file *file)
{
	const struct guarded what = guarded_in(file);

	return file_guard_take(meter->ctx, &file->guard, file->path, &what);
}

static bool is_overwritten(struct ocp_meter *meter, struct measured_file *file)
{
	const struct guarded what = guarded_in(file);

	return file_guard_is_broken(meter->ctx, &file->guard, &what);
}

int meter_attach_files(struct ocp_meter *meter, struct measured_file *const *files, size_t n)
{
	struct engine_file *engine_files = calloc(n + 1, sizeof(*engine_files));
	struct engine_site *sites = populated_calloc(meter->table.n_sites + 1, sizeof(*sites));
	int err = 0;

	if (!engine_files || !sites)
		err = ctx_no_memory(meter->ctx);
	for (size_t i = 0; !err && i < n; i++)
		err = fill_engine_file(meter, files[i], sites + files[i]->first_site,
				       &engine_files[i]);
	for (size_t i = 0; !err && i < n; i++)
		if (!files[i]->is_lost)
			err = guard_file(meter, files[i]);
	if (!err)
		err = meter->ops->attach(meter->engine, engine_files, n);
	for (size_t i = 0; i < n; i++) {
		files[i]->is_attached = !err;
		if (err)
			file_guard_release(&files[i]->guard);
	}
	free(engine_files);
	free(sites);
	return err;
}

/* Give the processes to an engine that has no site yet, so that it can follow their children. */
static int attach_processes(struct ocp_meter *meter)
{
	const struct engine_file engine_file = {
		.name = meter_where(meter),
		.pids = meter->pids,
		.n_pids = meter->program ? 0 : meter->n_pids,
	};

	return meter->ops->attach(meter->engine, &engine_file, 1);
}

int meter_attach_all(struct ocp_meter *meter)
{
	struct measured_file **files = calloc(meter->table.n_files + 1, sizeof(void *));
	size_t n = 0;
	int err;

	if (!files)
		return ctx_no_memory(meter->ctx);
	for (size_t i = 0; i < meter->table.n_files; i++)
		if (!meter->table.files[i].is_gone)
			files[n++] = &meter->table.files[i];
	err = n ? meter_attach_files(meter, files, n) : attach_processes(meter);
	free(files);
	return err;
}

/* ---- probes switched off and on ------------------------------------------------------------- */

static bool has_probe(const struct ocp_meter *meter, const struct measured_file *file,
		      size_t probe_index)
{
	for (size_t i = 0; !file->is_gone && i < file->n_sites; i++)
		if (meter->table.sites[file->first_site + i].probe_index == probe_index)
			return true;
	return false;
}

int meter_switch_file(struct ocp_meter *meter, const struct measured_file *file)
{
	struct engine_site *sites = calloc(file->n_sites + 1, sizeof(*sites));
	struct engine_file engine_file;
	int err = sites ? fill_engine_file(meter, file, sites, &engine_file)
			: ctx_no_memory(meter->ctx);

	if (!err)
		err = meter->ops->switch_sites(meter->engine, &engine_file);
	free(sites);
	return err;
}

/* Switch PROBE on or off in all files. On failure, switch it in no file. */
static int apply_to_files(struct ocp_meter *meter, struct measured_probe *probe, bool on)
{
	const size_t number = (size_t)(probe - meter->table.probes);
	size_t done = 0;
	int err = 0;

	probe->is_off = !on;
	for (; !err && done < meter->table.n_files; done++)
		if (has_probe(meter, &meter->table.files[done], number))
			err = meter_switch_file(meter, &meter->table.files[done]);
	if (!err)
		return 0;
	probe->is_off = on;
	for (size_t i = 0; i + 1 < done; i++)
		if (has_probe(meter, &meter->table.files[i], number) &&
		    meter_switch_file(meter, &meter->table.files[i]))
			ctx_log(meter->ctx, OCP_LOG_WARN, "%s", ocp_error(meter->ctx));
	return err;
}

static int check_switch(const struct ocp_meter *meter, const char *name)
{
	const ptrdiff_t number = site_table_find(&meter->table, name);
	const struct measured_probe *probe = number < 0 ? NULL : &meter->table.probes[number];

	if (!meter->engine)
		return ctx_error(meter->ctx, -EINVAL, "measuring: not opened yet");
	if (meter->is_pinned)
		return ctx_error(meter->ctx, -EINVAL,
				 "probe '%s': the probes of a pinned meter cannot be switched",
				 name);
	if (!probe)
		return ctx_error(meter->ctx, -ENOENT, "probe '%s': is not measured", name);
	if (probe->n_roles)
		return ctx_error(meter->ctx, -EINVAL,
				 "probe '%s': it is part of a pair and cannot be switched", name);
	if (probe->is_printed)
		return ctx_error(meter->ctx, -EINVAL,
				 "probe '%s': it is printed; only counters can be switched", name);
	return 0;
}

int ocp_meter_switch(struct ocp_meter *meter, const char *name, bool on)
{
	struct measured_probe *probe;
	int err = check_switch(meter, name);

	if (err)
		return err;
	probe = &meter->table.probes[site_table_find(&meter->table, name)];
	if (probe->is_off == !on)
		return 0;
	if (meter->is_attached)
		return apply_to_files(meter, probe, on);
	probe->is_off = !on;
	return 0;
}

int meter_switch_part(struct ocp_meter *meter, size_t part, size_t n_parts)
{
	int err = 0;

	for (size_t i = 0; i < meter->table.n_probes; i++)
		meter->table.probes[i].is_off = i % n_parts != part;
	for (size_t i = 0; !err && meter->is_attached && i < meter->table.n_files; i++)
		if (!meter->table.files[i].is_gone)
			err = meter_switch_file(meter, &meter->table.files[i]);
	return err;
}

/* ---- files that are overwritten ------------------------------------------------------------- */

/*
 * Stop measuring FILE, and keep its counts. A process that waits to write to it can then continue.
 */
static void lose_file(struct ocp_meter *meter, struct measured_file *file)
{
	file->is_lost = true;
	ctx_log(meter->ctx, OCP_LOG_WARN,
		"%s: overwritten in place: its probes are no longer measured", file->name);
	if (meter_switch_file(meter, file))
		ctx_log(meter->ctx, OCP_LOG_WARN, "%s", ocp_error(meter->ctx));
	file_guard_release(&file->guard);
}

int meter_check_files(struct ocp_meter *meter)
{
	const struct measured_file *lost = NULL;

	for (size_t i = 0; i < meter->table.n_files; i++) {
		struct measured_file *file = &meter->table.files[i];

		if (file->is_attached && !file->is_lost && is_overwritten(meter, file))
			lose_file(meter, file);
		if (file->is_lost && !lost)
			lost = file;
	}
	if (!lost)
		return 0;
	ctx_error(meter->ctx, -ESTALE, "%s: overwritten in place", lost->name);
	ctx_hint(meter->ctx, "restart measuring");
	return -ESTALE;
}

// SPDX-License-Identifier: MIT
/*
 * The files of a meter: adds files with their requested probes to the table, attaches to files,
 * switches probes on and off, detaches from files that are being overwritten, and removes files.
 *
 * Why files are removed: programs load private copies of plugins and delete them (Dynlink has a
 * function for this). Each copy takes a link, descriptors and site numbers. A meter that runs for
 * weeks would run out of these. Once no process maps a deleted file, no process can run it again.
 * The file is then removed from the table, and its counts are added to the sums of its probes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/populate.h"
#include "elf/elf_file.h"
#include "measure/meter.h"
#include "process/image.h"
#include "process/process.h"
#include "look/maps.h"

/* ---- adding --------------------------------------------------------------------------------- */

enum {
	PROCESSES_A_ROUND = 64,
	/* maximum of files removed per round, since each detach takes up to 0.1 s */
	MAX_GIVEN_UP = 4,
};

bool meter_wants_probe(void *data, const char *name, struct measured_probe *probe)
{
	struct ocp_meter *meter = data;
	const struct meter_end *end = meter_find_end(meter, name);

	if (selection_takes(&meter->arg_requests.not_measured, name))
		return false;
	if (end) {
		probe->first_role = end->first_role;
		probe->n_roles = end->n_roles;
		probe->begins_pair = end->begins_pair;
		probe->has_calls = end->has_calls;
		probe->key_args = end->key_args;
		probe->compared_args = end->compared_args;
	}
	probe->is_unfiltered =
		meter->request.spares_phases && item_kind_of_name(name) == ITEM_GC_PHASE;
	probe->is_counted = selection_takes(&meter->counted, name);
	probe->is_printed = selection_takes(&meter->arg_requests.printed, name);
	return probe->is_counted || probe->is_printed || end;
}

/*
 * Add the file FROM, which PID maps, to the table, and set *FILE to it. If the table already has
 * the file, set *FILE to NULL.
 */
static int add_new_file(struct ocp_meter *meter, const struct new_file *from, pid_t pid,
			struct measured_file **file)
{
	struct code_probes *code;
	int err;

	*file = NULL;
	meter_tell_late(meter, from);
	err = site_table_know_file(&meter->table, from);
	if (err != -ENOENT)
		return err;
	err = meter_find_code(meter, from->prog, pid, &code);
	return err ? err
		   : site_table_add_file(&meter->table, from, code, meter_wants_probe, meter, file);
}

int meter_add_program(struct ocp_meter *meter, size_t *n_new)
{
	const struct new_file from = { meter->program, elf_file_name(meter->program->elf), 0 };
	struct measured_file *file = NULL;
	int err = add_new_file(meter, &from, 0, &file);

	*n_new = file ? file->n_sites : 0;
	return err;
}

int meter_add_images(struct ocp_meter *meter, const struct ocp_process *proc, bool ours,
		     size_t *n_new)
{
	const pid_t pid = meter->program ? 0 : ocp_process_tgid(proc);
	int err = 0;

	for (size_t i = 0; !err && i < proc->images.n; i++) {
		struct image *image = &proc->images.images[i];
		struct measured_file *file;

		err = add_new_file(meter, &(struct new_file){ image->prog, image->path, pid },
				   proc->pid, &file);
		if (err || !file)
			continue;
		*n_new += file->n_sites;
		if (ours) {
			file->own = image->prog;
			image->prog = NULL;
		}
	}
	return err ? err : meter_add_files_without_probes(meter, proc->pid, n_new);
}

/* ---- deleted files --------------------------------------------------------------------------- */

/* Return true if FILE was deleted, so that only processes that map it can still run it. */
static bool is_deleted(const struct measured_file *file)
{
	struct stat st;

	return file->own && !file->is_lost && fstat(file->own->fd, &st) == 0 && st.st_nlink == 0;
}

static bool has_deleted(const struct ocp_meter *meter)
{
	for (size_t i = 0; i < meter->table.n_files; i++)
		if (is_deleted(&meter->table.files[i]))
			return true;
	return false;
}

static bool is_of_deleted(const struct mapping *m)
{
	static const char deleted[] = " (deleted)";
	const size_t bytes = strlen(m->path), its = sizeof(deleted) - 1;

	return m->executable && m->inode && bytes > its &&
	       strcmp(m->path + bytes - its, deleted) == 0;
}

/* Mark the open file FD as in use. If FD is negative or cannot be inspected, mark all files. */
static void mark_in_use(const struct ocp_meter *meter, int fd, bool *in_use)
{
	struct stat st;
	const bool is_known = fd >= 0 && fstat(fd, &st) == 0;

	for (size_t i = 0; i < meter->table.n_files; i++) {
		const struct measured_file *file = &meter->table.files[i];

		if (!is_known || (st.st_dev == file->dev && st.st_ino == file->ino))
			in_use[i] = true;
	}
}

/* Mark the deleted files that PID maps as in use, or all files if its mappings are unknown. */
static void ask_process(const struct ocp_meter *meter, pid_t pid, bool *in_use)
{
	struct maps maps;
	const int err = maps_read(meter->ctx, pid, &maps);

	if (err == -ESRCH)
		return;
	if (err) {
		mark_in_use(meter, -1, in_use);
		return;
	}
	for (size_t i = 0; i < maps.n; i++) {
		int fd;

		if (!is_of_deleted(&maps.mappings[i]))
			continue;
		fd = maps_open_file(pid, &maps.mappings[i]);
		mark_in_use(meter, fd, in_use);
		if (fd >= 0)
			close(fd);
	}
	maps_free(&maps);
}

static void give_up_file(struct ocp_meter *meter, struct measured_file *file)
{
	/*
	 * Do not reuse the site numbers if there are rows by site, or if the ring buffer may
	 * contain records with these numbers.
	 */
	const bool keeps = meter->request.split == OCP_BY_SITE || meter->spec.request.printed.n ||
			   meter->spec.request.has_slower;
	const struct measured_site *sites = meter->table.sites + file->first_site;
	uint64_t *hits = calloc(file->n_sites + 1, sizeof(*hits));

	if (!hits)
		return;
	ctx_log(meter->ctx, OCP_LOG_DEBUG, "%s: no process runs it any more, and none can",
		file->name);
	if (file->is_attached)
		meter->ops->give_up(meter->engine, file->first_site, file->n_sites,
				    keeps ? NULL : hits);
	for (size_t i = 0; i < file->n_sites; i++)
		if (sites[i].counts)
			meter->table.probes[sites[i].probe_index].past_hits += hits[i];
	free(hits);
	site_table_remove(&meter->table, file, keeps);
}

/*
 * Remove deleted files that are not in use. The list of processes may lack a process that was just
 * forked and that maps the files of its parent. Therefore remove a file only if no process mapped
 * it at two successive checks.
 */
static void give_up_unused(struct ocp_meter *meter, const bool *in_use)
{
	unsigned int n = 0;

	for (size_t i = 0; i < meter->table.n_files; i++) {
		struct measured_file *file = &meter->table.files[i];

		if (in_use[i] || !is_deleted(file)) {
			file->is_idle = false;
		} else if (!file->is_idle) {
			file->is_idle = true;
		} else if (n < MAX_GIVEN_UP) {
			give_up_file(meter, file);
			n++;
		}
	}
}

/* Return true if all deleted files are known to be in use. */
static bool all_in_use(const struct ocp_meter *meter, const bool *in_use)
{
	for (size_t i = 0; i < meter->table.n_files; i++)
		if (!in_use[i] && is_deleted(&meter->table.files[i]))
			return false;
	return true;
}

void meter_give_up_files(struct ocp_meter *meter)
{
	bool *in_use;

	/*
	 * Check only if all measured processes are known and, with many processes, only in some of
	 * the rounds.
	 */
	if (!meter->sees_all || meter->hidden.n ||
	    meter->round % (1 + meter->n_processes / PROCESSES_A_ROUND) || !has_deleted(meter))
		return;
	in_use = calloc(meter->table.n_files, sizeof(*in_use));
	if (!in_use)
		return;
	for (size_t i = 0; i < meter->n_processes && !all_in_use(meter, in_use); i++)
		ask_process(meter, meter->processes[i].pid, in_use);
	give_up_unused(meter, in_use);
	free(in_use);
}

/* ---- attaching ------------------------------------------------------------------------------ */

/*
 * Set the roles of OUT, the engine's site for SITE of PROBE: see struct meter_end. The calls of a
 * function are matched by thread, without frames, if they do not nest in a thread (site.is_flat)
 * and the function belongs to one pair only.
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

/* Set the members of SITE that concern the arguments of MEASURED. */
static void fill_site_arguments(const struct ocp_meter *meter, const struct measured_site *measured,
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

static int fill_engine_file(const struct ocp_meter *meter, const struct measured_file *file,
			    struct engine_site *sites, struct engine_file *engine_file)
{
	for (size_t i = 0; i < file->n_sites; i++) {
		const struct measured_site *measured = &meter->table.sites[file->first_site + i];
		const struct measured_probe *probe = &meter->table.probes[measured->probe_index];
		const struct site *site = measured->site;
		const struct elf_file *elf = file->prog->elf;

		sites[i] = (struct engine_site){
			.site = site,
			.probe_index = measured->probe_index,
			.is_off = probe->is_off || file->is_lost || measured->is_left_out,
			.is_keyed = probe->is_counted && site_counts(site),
			.needs_kernel = meter_needs_kernel(site),
		};
		fill_roles(probe, site, &sites[i]);
		fill_site_arguments(meter, measured, &sites[i]);
		if (!elf_file_va_to_off(elf, site->va, &sites[i].nop_off))
			return ctx_error(meter->ctx, -EBADMSG,
					 "%s: the file lacks the code of a site", file->name);
		/*
		 * A semaphore in .bss has no file offset, by which the kernel could find it: raise
		 * none.
		 */
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

/*
 * Tell an engine that has no site yet which processes to measure, so that it can follow their
 * children.
 */
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

/*
 * Switch PROBE on or off in all files. On failure, restore the previous state of PROBE in all
 * files.
 */
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
 * Stop measuring FILE, which is being overwritten, but keep its counts. A process that waits to
 * write to FILE can then continue.
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

// SPDX-License-Identifier: MIT
/*
 * Leaves out functions that a process has changed in memory. The code of such a function differs
 * from the file, but a uprobe on it would execute the file's instruction, not the changed one.
 * These functions are left out for all processes, since all processes that map a file share its
 * sites. If a process changes its code only while it is measured, it overwrites the uprobe, and the
 * kernel leaves the changed code as it is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "measure/meter.h"
#include "process/changed_code.h"
#include "process/mapped_files.h"

static struct measured_file *find_measured_file(const struct ocp_meter *meter,
						const struct stat *st)
{
	for (size_t i = 0; i < meter->table.n_files; i++) {
		struct measured_file *file = &meter->table.files[i];

		if (!file->is_gone && file->dev == st->st_dev && file->ino == st->st_ino)
			return file;
	}
	return NULL;
}

static bool selection_names(const struct selection *selection, const char *name)
{
	const struct item *item;

	for (size_t i = 0; (item = selection_item(selection, i)); i++)
		if (strcmp(item->text, name) == 0)
			return true;
	return false;
}

/*
 * Return true if the request contains NAME itself, not only a regular expression that matches it.
 */
static bool is_named(const struct ocp_meter *meter, const char *name)
{
	for (size_t i = 0; i < meter->n_pairs; i++)
		if (strcmp(meter->pairs[i].start, name) == 0 ||
		    strcmp(meter->pairs[i].stop, name) == 0)
			return true;
	return selection_names(&meter->counted, name) ||
	       selection_names(&meter->arg_requests.printed, name);
}

/* Leave out all sites of PROBE in FILE. Returns false if they are left out already. */
static bool leave_out_sites(struct ocp_meter *meter, const struct measured_file *file,
			    uint32_t probe)
{
	bool is_new = false;

	for (size_t i = file->first_site; i < file->first_site + file->n_sites; i++) {
		struct measured_site *site = &meter->table.sites[i];

		if (site->probe_index != probe || site->site->abi != SITE_ABI_CODE)
			continue;
		is_new |= !site->is_left_out;
		site->is_left_out = true;
	}
	return is_new;
}

/*
 * Leave out the functions of FILE that have a changed site. SITES are the sites in the code of
 * FILE; CHANGED[i] is true if SITES[i] has changed.
 */
static int leave_out_all(struct ocp_meter *meter, const struct measured_file *file, pid_t pid,
			 const struct site *sites, const bool *changed)
{
	const char *first = NULL;
	size_t n = 0;
	int err = 0;

	for (size_t i = file->first_site; i < file->first_site + file->n_sites; i++) {
		const struct measured_site *site = &meter->table.sites[i];
		const char *name = meter->table.probes[site->probe_index].name;

		if (site->site->abi != SITE_ABI_CODE || !changed[site->site - sites])
			continue;
		if (!meter->engine && is_named(meter, name))
			return ctx_error(meter->ctx, -EBADMSG,
					 "'%s': cannot be measured: pid %d has changed its code in "
					 "memory",
					 name, (int)pid);
		if (!leave_out_sites(meter, file, site->probe_index))
			continue;
		first = first ? first : name;
		n++;
	}
	if (!n)
		return 0;
	if (file->is_attached)
		err = meter_switch_file(meter, file);
	if (!err)
		ctx_log(meter->ctx, OCP_LOG_WARN,
			"%s: pid %d has changed the code of %zu function%s in memory: left out, the "
			"first one is %s",
			file->name, (int)pid, n, n == 1 ? "" : "s", first);
	return err;
}

int meter_leave_out_changed(struct ocp_meter *meter, pid_t pid, const struct mapping *m,
			    const struct stat *st)
{
	const struct measured_file *file = find_measured_file(meter, st);
	const struct probe_set code = code_probes_set(file ? file->code : NULL);
	bool *changed;
	uint64_t bias;
	size_t n;
	int err;

	if (!file || !code.n_sites || !file->n_sites ||
	    !mapped_files_bias(file->prog->elf, m, &bias))
		return 0;
	changed = calloc(code.n_sites, sizeof(*changed));
	if (!changed)
		return ctx_no_memory(meter->ctx);
	err = changed_code_find(meter->ctx, pid, file->prog, bias, file->code, changed, &n);
	if (err && err != -ENOMEM) {
		/*
		 * The process has ended, or may not be inspected. In both cases it is not measured.
		 */
		ctx_log(meter->ctx, OCP_LOG_DEBUG, "%s", ocp_error(meter->ctx));
		err = 0;
	} else if (!err && n) {
		err = leave_out_all(meter, file, pid, code.sites, changed);
	}
	free(changed);
	return err;
}

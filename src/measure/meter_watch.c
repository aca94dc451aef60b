// SPDX-License-Identifier: MIT
/* The processes of a meter, which come and go and load files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "measure/meter.h"
#include "process/maps.h"
#include "process/process.h"

/* A number that says which files PID runs code of; 0 if it cannot be asked. */
static uint64_t read_signature(struct ocp_meter *meter, pid_t pid)
{
	uint64_t signature = 14695981039346656037U; /* FNV-1a */
	struct maps maps;

	if (maps_read(meter->ctx, pid, &maps))
		return 0;
	for (size_t i = 0; i < maps.n; i++) {
		const struct mapping *m = &maps.mappings[i];

		if (!m->executable || !m->inode)
			continue;
		signature = (signature ^ m->inode) * 1099511628211U;
		signature = (signature ^ m->dev_major) * 1099511628211U;
		signature = (signature ^ m->dev_minor) * 1099511628211U;
	}
	maps_free(&maps);
	return signature;
}

/* Does PID run code of other files than when it was looked at last? */
static int look_for_news(struct ocp_meter *meter, pid_t pid, bool *is_new)
{
	const uint64_t signature = read_signature(meter, pid);
	struct looked_at *grown;

	*is_new = signature != 0;
	for (size_t i = 0; i < meter->n_looked_at; i++) {
		struct looked_at *before = &meter->looked_at[i];

		if (before->pid != pid)
			continue;
		*is_new = *is_new && before->signature != signature;
		before->signature = signature;
		return 0;
	}
	grown = realloc(meter->looked_at, (meter->n_looked_at + 1) * sizeof(*grown));
	if (!grown)
		return ctx_no_memory(meter->ctx);
	meter->looked_at = grown;
	grown[meter->n_looked_at++] = (struct looked_at){ pid, signature };
	return 0;
}

/* See what PID has mapped. One that has ended or hides is passed over. */
int meter_add_running(struct ocp_meter *meter, pid_t pid, size_t *n_new)
{
	struct ocp_process *proc;
	size_t n_files = meter->table.n_files;
	bool is_new;
	int err = look_for_news(meter, pid, &is_new);

	if (err || !is_new)
		return err;
	err = ocp_process_open(meter->ctx, pid, &proc);
	if (err == -ENOMEM)
		return err;
	if (err) {
		ctx_log(meter->ctx, OCP_LOG_DEBUG, "%s", ocp_error(meter->ctx));
		return 0;
	}
	err = meter_add_images(meter, proc, n_new);
	/* Files are known by the descriptors of whoever had them first. */
	if (!err && meter->table.n_files > n_files)
		return meter_add_own(meter, proc);
	ocp_process_free(proc);
	return err;
}

int meter_add_running_programs(struct ocp_meter *meter, size_t *n_new)
{
	size_t n = 0;
	pid_t *pids = NULL;
	int err = ocp_find_processes(meter->ctx, meter->program_path, &pids, &n);

	if (err == -ESRCH)
		return 0;
	for (size_t i = 0; !err && i < n; i++)
		err = meter_add_running(meter, pids[i], n_new);
	free(pids);
	return err;
}

int ocp_meter_refresh(struct ocp_meter *meter, size_t *n_sites)
{
	size_t n_files = meter->table.n_files, first = meter->table.n_sites;
	int err = 0;

	*n_sites = 0;
	if (meter->program)
		err = meter_add_running_programs(meter, n_sites);
	for (size_t i = 0; !err && i < meter->n_procs; i++)
		err = meter_add_running(meter, meter->procs[i]->pid, n_sites);
	if (!err && *n_sites && meter->split == OCP_BY_SITE)
		err = site_table_read_source(&meter->table, first);
	if (!err && *n_sites)
		err = arguments_resolve(meter, first, false);
	if (!err && meter->table.n_files > n_files)
		err = meter_attach_files(meter, n_files);
	return err;
}

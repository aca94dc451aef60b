// SPDX-License-Identifier: MIT
/*
 * The files that a meter measures in: they go to its table with the probes that are wanted of them.
 *
 * And they leave it. Programs load private copies of plugins, which they delete (Dynlink has a
 * function for it); each takes a link, descriptors and numbers of sites, of which a meter that goes
 * on for weeks has not enough. When the last process that had one mapped has ended, or unmapped it,
 * and it has no name left, it cannot be run again: it is given up, and what was counted in it stays
 * in the sums.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/elf_file.h"
#include "measure/meter.h"
#include "process/image.h"
#include "process/maps.h"
#include "process/process.h"

enum {
	PROCESSES_A_ROUND = 64,
	MAX_GIVEN_UP = 4, /* in one round: detaching takes up to a tenth of a second */
};

static bool probe_is_wanted(void *data, const char *name, struct measured_probe *probe)
{
	struct ocp_meter *meter = data;
	const struct meter_end *end = meter_find_end(meter, name);

	if (selection_takes(&meter->arguments.not_measured, name))
		return false;
	if (end) {
		probe->first_role = end->first_role;
		probe->n_roles = end->n_roles;
		probe->begins_pair = end->begins_pair;
	}
	probe->is_counted = selection_takes(&meter->counted, name);
	probe->is_printed = selection_takes(&meter->arguments.printed, name);
	return probe->is_counted || probe->is_printed || end;
}

int meter_add_program(struct ocp_meter *meter, size_t *n_new)
{
	struct measured_file *file;
	int err = site_table_add_file(&meter->table, meter->program,
				      elf_file_name(meter->program->elf), 0, probe_is_wanted, meter,
				      &file);

	*n_new = err || !file ? 0 : file->n_sites;
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

		err = site_table_add_file(&meter->table, image->prog, image->path, pid,
					  probe_is_wanted, meter, &file);
		if (err || !file)
			continue;
		*n_new += file->n_sites;
		if (ours) {
			file->own = image->prog;
			image->prog = NULL;
		}
	}
	return err;
}

/* ---- files that are gone -------------------------------------------------------------------- */

/* Could it be given up: has nobody but a process that has it mapped a way to it? */
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

/* All IN_USE, or those with the identity of FD. */
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

/* Those that PID has mapped are. If that cannot be said, all may be. */
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
		fd = image_open_mapped(pid, &maps.mappings[i]);
		mark_in_use(meter, fd, in_use);
		if (fd >= 0)
			close(fd);
	}
	maps_free(&maps);
}

static void give_up_file(struct ocp_meter *meter, struct measured_file *file)
{
	/* Rows by site stay, and hits to be printed may still come out of the buffer. */
	const bool keeps = meter->split == OCP_BY_SITE || meter->spec.prints;
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
		meter->table.probes[sites[i].probe_index].past_hits += hits[i];
	free(hits);
	site_table_remove(&meter->table, file, keeps);
}

/*
 * A process that was forked after the list of processes was made may have what its parent had: only
 * what is in nobody's use twice, one list after the other, is given up. Where not all who are
 * measured are known, nothing is.
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

/* Are all that are deleted in use, as far as is known? */
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

	/* The more processes there are, the rarer are they asked. */
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

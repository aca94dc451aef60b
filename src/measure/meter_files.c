// SPDX-License-Identifier: MIT
/*
 * Adds files to the table of a meter, with the probes that are requested, and removes files from
 * it.
 *
 * Why files are removed: programs load private copies of plugins and delete them (Dynlink has a
 * function for this). Each copy needs a link, descriptors and site numbers, and a meter that runs
 * for weeks would run out of these. Once no process maps a deleted file, no process can run it
 * again. The file is then removed from the table, and its counts are added to the sums of its
 * probes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/elf_file.h"
#include "measure/meter.h"
#include "process/image.h"
#include "tracee/maps.h"
#include "process/process.h"

enum {
	PROCESSES_A_ROUND = 64,
	MAX_GIVEN_UP = 4, /* per round: detaching takes up to 0.1 s */
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
	probe->is_counted = selection_takes(&meter->counted, name);
	probe->is_printed = selection_takes(&meter->arg_requests.printed, name);
	return probe->is_counted || probe->is_printed || end;
}

/*
 * Add the file of FROM, which PID maps, unless the table has it. *FILE is NULL if the table has it.
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

/* ---- files that are gone -------------------------------------------------------------------- */

/* Return true if FILE was deleted: only processes that map it can reach it. */
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

/* Mark the files that FD is open on as in use, or all files if the file of FD is unknown. */
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
	 * Keep the site numbers if rows by site need them, or if the buffer may contain hits to
	 * print.
	 */
	const bool keeps = meter->split == OCP_BY_SITE || meter->spec.prints || meter->spec.slower;
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
 * Remove deleted files that are not in use. A process that was forked after the processes were
 * listed may map the files of its parent. A file is therefore removed only if no process maps it in
 * two successive lists, and only if all measured processes are known.
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

	/* With many processes, check only in some of the rounds. */
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

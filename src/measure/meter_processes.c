// SPDX-License-Identifier: MIT
/*
 * Lists the processes of a meter at every refresh, and finds the files that these have loaded. The
 * list is made anew each time, so that ended processes disappear from it. A refresh takes place
 * about once a second, even on machines with thousands of processes. So that a refresh takes only a
 * few milliseconds, each round inspects only some of the older processes.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base_name.h"
#include "base/hash.h"
#include "elf/elf_file.h"
#include "measure/meter.h"
#include "look/proc_file.h"
#include "process/process.h"

enum {
	YOUNG_LOOKS = 16, /* looks at a new process, which is likely to load files */
	LOOKS_A_ROUND = 64,
};

void meter_processes_free(struct ocp_meter *meter)
{
	free(meter->processes);
	free(meter->hidden.pids);
	find_memory_free(&meter->known);
	free(meter->forgotten);
}

/* ---- one process ---------------------------------------------------------------------------- */

/* Return the word that follows WORD in the line. */
static const char *next_word(const char *word)
{
	word += strcspn(word, " \n");
	return word + strspn(word, " ");
}

/* Return a hash of the files that PID has mapped as code, or 0 if the mappings cannot be read. */
static uint64_t read_signature(struct ocp_meter *meter, pid_t pid)
{
	uint64_t signature = HASH_START;
	const char *next;
	char *text;

	if (proc_memory_file_read(meter->ctx, pid, "maps", &text, NULL))
		return 0;
	/* A line is "start-end perms offset device inode path": see look/maps.c. */
	for (const char *line = text; *line; line = next) {
		const char *perms = next_word(line), *device, *inode, *end;

		next = perms + strcspn(perms, "\n");
		next += *next == '\n';
		if (next - perms < 4 || perms[2] != 'x')
			continue;
		device = next_word(next_word(perms));
		inode = next_word(device);
		end = inode + strspn(inode, "0123456789");
		if (*inode == '0')
			continue;
		signature = hash_bytes(signature, device, (size_t)(end - device));
	}
	free(text);
	return signature;
}

/* Add the files that PROCESS maps. If PROCESS has ended or cannot be inspected, do nothing. */
static int add_running(struct ocp_meter *meter, struct measured_process *process, size_t *n_new)
{
	struct ocp_process *proc;
	int err = ocp_process_open(meter->ctx, process->pid, &proc);

	if (err == -ENOMEM)
		return err;
	if (err) {
		ctx_log(meter->ctx, OCP_LOG_DEBUG, "%s", ocp_error(meter->ctx));
		process->signature = 0; /* the files of the process are unknown */
		return 0;
	}
	err = meter_add_images(meter, proc, true, n_new);
	ocp_process_free(proc);
	return err;
}

/*
 * Inspect PROCESS if it is due in this round. If it has mapped code from other files than at its
 * last inspection, add its files.
 */
static int add_changed_files(struct ocp_meter *meter, struct measured_process *process,
			     size_t *n_new)
{
	const uint64_t before = process->signature;

	if (process->looks >= YOUNG_LOOKS &&
	    !find_is_its_turn(process->pid, meter->n_processes, LOOKS_A_ROUND, meter->round))
		return 0;
	process->looks += process->looks < YOUNG_LOOKS;
	process->signature = read_signature(meter, process->pid);
	if (!process->signature || process->signature == before)
		return 0;
	process->changed = meter->round;
	return add_running(meter, process, n_new);
}

/* ---- all processes of a program ------------------------------------------------------------- */

/*
 * Replace the meter's list of processes by FOUND. For processes that are in both, keep what the
 * meter knows about them.
 */
static int take_found(struct ocp_meter *meter, const struct found_processes *found)
{
	struct measured_process *processes = calloc(found->n + 1, sizeof(*processes));
	size_t old = 0;

	if (!processes)
		return ctx_no_memory(meter->ctx);
	for (size_t i = 0; i < found->n; i++) {
		processes[i].pid = processes[i].tgid = found->pids[i];
		while (old < meter->n_processes && meter->processes[old].pid < found->pids[i])
			old++;
		if (old < meter->n_processes && meter->processes[old].pid == found->pids[i])
			processes[i] = meter->processes[old];
	}
	free(meter->processes);
	meter->processes = processes;
	meter->n_processes = found->n;
	return 0;
}

void meter_share_known(struct ocp_meter *meter, struct find_memory *known)
{
	meter->shared = known;
}

static int look_at_program(struct ocp_meter *meter, size_t *n_new)
{
	struct find_memory *known = meter->shared ? meter->shared : &meter->known;
	const char *name = elf_file_name(meter->program->elf), *base = base_name(name);
	struct found_processes found;
	struct stat file;
	int err;

	if (fstat(meter->program->fd, &file))
		return ctx_error(meter->ctx, -errno, "%s: %s", name, strerror(errno));
	find_memory_expire(&meter->known);
	err = find_processes(meter->ctx, &file, base, known, &found);
	if (!err) {
		meter->sees_all = found.sees_all;
		find_warn_of_hidden(meter->ctx, &meter->hidden, &found, base);
		err = take_found(meter, &found);
	}
	found_processes_free(&found);
	for (size_t i = 0; !err && i < meter->n_processes; i++)
		err = add_changed_files(meter, &meter->processes[i], n_new);
	return err;
}

/* ---- single processes ----------------------------------------------------------------------- */

/* Return true if the process has not ended. (If it has, another process may have the same pid.) */
static bool is_still_there(const struct measured_process *process)
{
	uint64_t start_time;

	return proc_start_time(process->pid, &start_time) == 0 && process->start_time == start_time;
}

static bool is_measured(const struct ocp_meter *meter, pid_t tgid)
{
	for (size_t i = 0; i < meter->n_processes; i++)
		if (meter->processes[i].tgid == tgid)
			return true;
	return false;
}

/*
 * Return true if PID is a zombie. The pid of a zombie is not reused yet. If the zombie is a main
 * thread, other threads of its process may still run.
 */
static bool is_zombie(pid_t pid)
{
	uint64_t start_time;

	return proc_start_time(pid, &start_time) != 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

static void unlist_ended(struct ocp_meter *meter)
{
	for (size_t i = 0; i < meter->n_pids; i++) {
		const pid_t pid = meter->pids[i];

		if (!is_measured(meter, pid) && !is_zombie(pid))
			meter->ops->unlist(meter->engine, pid);
	}
}

void meter_drop_ended(struct ocp_meter *meter)
{
	size_t left = 0;

	if (meter->program)
		return;
	for (size_t i = 0; i < meter->n_processes; i++)
		if (is_still_there(&meter->processes[i]))
			meter->processes[left++] = meter->processes[i];
	meter->n_processes = left;
	if (meter->engine)
		unlist_ended(meter);
}

static int look_at_processes(struct ocp_meter *meter, size_t *n_new)
{
	const bool is_first = !meter->processes;
	int err = 0;

	if (is_first) {
		meter->processes = calloc(meter->n_procs + 1, sizeof(*meter->processes));
		if (!meter->processes)
			return ctx_no_memory(meter->ctx);
		meter->n_processes = meter->n_procs;
		for (size_t i = 0; i < meter->n_procs; i++) {
			struct measured_process *process = &meter->processes[i];

			process->pid = process->tgid = meter->pids[i];
			if (proc_start_time(process->pid, &process->start_time) == 0)
				continue;
			process->pid = meter->procs[i]->pid;
			proc_start_time(process->pid, &process->start_time);
		}
	}
	meter->sees_all = !meter->request.children;
	meter_drop_ended(meter);
	/* In the first round, the table already contains the files of these processes. */
	for (size_t i = 0; !err && !is_first && i < meter->n_processes; i++)
		err = add_changed_files(meter, &meter->processes[i], n_new);
	return err;
}

/* ---- all ------------------------------------------------------------------------------------ */

int meter_look_at_processes(struct ocp_meter *meter, size_t *n_new)
{
	meter->table.round = ++meter->round;
	return meter->program ? look_at_program(meter, n_new) : look_at_processes(meter, n_new);
}

void meter_forget_round(struct ocp_meter *meter)
{
	for (size_t i = 0; i < meter->n_processes; i++)
		if (meter->processes[i].changed == meter->round)
			meter->processes[i].signature = 0;
}

int ocp_meter_processes(const struct ocp_meter *meter, pid_t **pids, size_t *n, bool *complete)
{
	*n = 0;
	*complete = meter->sees_all && !meter->hidden.n;
	*pids = calloc(meter->n_processes + 1, sizeof(**pids));
	if (!*pids)
		return ctx_no_memory(meter->ctx);
	for (size_t i = 0; i < meter->n_processes; i++)
		(*pids)[(*n)++] = meter->processes[i].pid;
	return 0;
}

/* ---- rows of ended processes ---------------------------------------------------------------- */

/*
 * Return true if ID, which is a thread of process TGID or TGID itself, has ended. A zombie counts
 * as not ended. Do not use /proc, which may hide processes of other users (hidepid).
 */
static bool has_task_ended(void *data, uint32_t id, uint32_t tgid)
{
	const struct ocp_meter *meter = data;
	const uint32_t tid = meter->request.split == OCP_BY_THREAD ? id : tgid;

	return syscall(SYS_tgkill, (pid_t)tgid, (pid_t)tid, 0) != 0 && errno == ESRCH;
}

static int make_room_for_forgotten(struct ocp_meter *meter)
{
	const size_t n = meter->table.n_probes;
	uint64_t *grown = realloc(meter->forgotten, (n + 1) * sizeof(*grown));

	if (!grown)
		return ctx_no_memory(meter->ctx);
	memset(grown + meter->n_forgotten, 0, (n - meter->n_forgotten) * sizeof(*grown));
	meter->forgotten = grown;
	meter->n_forgotten = n;
	return 0;
}

int ocp_meter_forget_ended(struct ocp_meter *meter)
{
	struct engine_keyed *dropped = NULL;
	size_t n = 0;
	int err;

	if (!meter->engine || meter->is_pinned)
		return ctx_error(meter->ctx, -EINVAL, "measuring: %s",
				 meter->engine ? "rows of a pinned meter cannot be removed"
					       : "not opened yet");
	if (meter->request.split != OCP_BY_PROCESS && meter->request.split != OCP_BY_THREAD)
		return 0;
	err = make_room_for_forgotten(meter);
	if (!err)
		err = meter->ops->forget(meter->engine, has_task_ended, meter, &dropped, &n);
	/* Keep the hits of the removed rows. DROPPED has these rows even if `forget` failed. */
	for (size_t i = 0; i < n; i++)
		meter->forgotten[dropped[i].probe_index] += dropped[i].hits;
	free(dropped);
	return err;
}

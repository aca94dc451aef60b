// SPDX-License-Identifier: MIT
/*
 * The public functions for a live process. Its images and sites are found once, when it is opened.
 * update.c switches its probes.
 */
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "process/actions.h"
#include "tracee/proc_file.h"
#include "tracee/tracee.h"

int ocp_process_open(struct ocp_ctx *ctx, pid_t pid, struct ocp_process **out)
{
	struct ocp_process *proc;
	int err;

	*out = NULL;
	if (pid <= 0)
		return ctx_error(ctx, -EINVAL, "pid %d: not a process id", (int)pid);
	proc = calloc(1, sizeof(*proc));
	if (!proc)
		return ctx_no_memory(ctx);
	proc->ctx = ctx;
	proc->pid = pid;
	proc->is_self = pid == getpid();
	err = memory_open(ctx, pid, &proc->memory);
	if (!err)
		err = image_list_read(ctx, pid, &proc->images);
	if (!err)
		err = live_make(ctx, &proc->images, &proc->live);
	if (err) {
		ocp_process_free(proc);
		return err;
	}
	container_read(pid, &proc->container);
	*out = proc;
	return 0;
}

void ocp_process_free(struct ocp_process *proc)
{
	if (!proc)
		return;
	ocp_process_release(proc);
	live_free(&proc->live);
	image_list_free(&proc->images);
	memory_close(proc->memory);
	free(proc);
}

pid_t ocp_process_pid(const struct ocp_process *proc)
{
	return proc->pid;
}

pid_t ocp_process_tgid(const struct ocp_process *proc)
{
	struct proc_status status;

	/* If /proc belongs to another pid namespace, only our own id is known to be right. */
	if (proc->is_self || proc_status_read(proc->ctx, proc->pid, &status) != 0 || !status.tgid)
		return proc->pid;
	return status.tgid;
}

const char *ocp_process_exe(const struct ocp_process *proc)
{
	return proc->images.exe_path;
}

const char *ocp_process_container(const struct ocp_process *proc)
{
	return *proc->container.id ? proc->container.id : NULL;
}

const char *ocp_process_pod(const struct ocp_process *proc)
{
	return *proc->container.pod ? proc->container.pod : NULL;
}

pid_t ocp_process_ns_pid(const struct ocp_process *proc)
{
	struct proc_status status;

	if (proc_status_read(proc->ctx, proc->pid, &status) != 0 || !status.ns_pid)
		return proc->pid;
	return status.ns_pid;
}

size_t ocp_process_probe_count(const struct ocp_process *proc)
{
	return proc->live.n_probes;
}

const char *ocp_process_probe_name(const struct ocp_process *proc, size_t probe)
{
	return proc->live.probes[probe].name;
}

size_t ocp_process_probe_sites(const struct ocp_process *proc, size_t probe)
{
	return proc->live.probes[probe].n_sites;
}

static int read_states(struct ocp_process *proc, enum ocp_state *states)
{
	struct snapshot snapshot;
	int err = snapshot_read(proc->ctx, proc->memory, &proc->live, &snapshot);

	if (err)
		return err;
	for (size_t i = 0; i < proc->live.n_probes; i++)
		states[i] = snapshot_state(&snapshot, i);
	snapshot_free(&snapshot);
	return 0;
}

int ocp_process_read_states(struct ocp_process *proc, unsigned int flags, enum ocp_state *states)
{
	bool hold = (flags & OCP_ATOMICALLY) && !proc->held;
	int err = hold ? ocp_process_hold(proc) : 0;

	if (!err)
		err = read_states(proc, states);
	if (hold)
		ocp_process_release(proc);
	return err;
}

int ocp_process_hold(struct ocp_process *proc)
{
	int err;

	if (proc->held)
		return ctx_error(proc->ctx, -EINVAL, "pid %d: is already held", (int)proc->pid);
	err = tracee_open(proc->ctx, proc->pid, &proc->held);
	if (!err)
		err = tracee_stop(proc->held);
	if (err) {
		tracee_close(proc->held);
		proc->held = NULL;
	}
	return err;
}

void ocp_process_release(struct ocp_process *proc)
{
	tracee_close(proc->held);
	proc->held = NULL;
}

/*
 * Return -EBADMSG if PATH is a program whose end is missing: the kernel would start it, and a
 * signal would kill it when it touches the missing part. Return 0 otherwise: the kernel itself
 * reports all other defects of a file.
 */
static int check_complete(struct ocp_ctx *ctx, const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), err;
	struct elf_file *elf;

	if (fd < 0)
		return 0;
	err = elf_file_open(ctx, fd, path, &elf);
	if (!err) {
		err = elf_file_check_complete(elf);
		elf_file_close(elf);
	}
	close(fd);
	if (err != -EBADMSG)
		return 0;
	ctx_hint(ctx, "the file is truncated, or is being written");
	return err;
}

int ocp_process_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[],
		      struct ocp_process **out)
{
	struct tracee *tracee;
	int err = check_complete(ctx, path);

	*out = NULL;
	if (!err)
		err = tracee_spawn(ctx, path, argv, &tracee);
	if (err)
		return err;
	err = ocp_process_open(ctx, tracee_pid(tracee), out);
	if (err)
		tracee_kill(tracee);
	else
		(*out)->held = tracee;
	return err;
}

/* Carry out the enable actions of ACTIONS in the new process PROC, in which all probes are off. */
static int update_new(struct ocp_process *proc, const struct ocp_actions *actions)
{
	struct ocp_actions *enable = actions_enabling(actions);
	int err = enable ? ocp_process_update(proc, enable, 0) : -ENOMEM;

	ocp_actions_free(enable);
	return err;
}

int ocp_trace_held(struct ocp_ctx *ctx, const char *path, char *const argv[],
		   const struct ocp_actions *actions, struct ocp_process **out)
{
	int err = ocp_process_spawn(ctx, path, argv, out);

	if (!err && actions)
		err = update_new(*out, actions);
	if (err && *out) {
		tracee_kill((*out)->held);
		(*out)->held = NULL;
		ocp_process_free(*out);
		*out = NULL;
	}
	return err;
}

int ocp_trace(struct ocp_ctx *ctx, const char *path, char *const argv[],
	      const struct ocp_actions *actions, pid_t *pid)
{
	struct ocp_process *proc;
	int err = ocp_trace_held(ctx, path, argv, actions, &proc);

	if (err)
		return err;
	*pid = proc->pid;
	ocp_process_free(proc);
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * A live process: joins what the files of this folder do into the public functions.
 *
 *	images -> live sites            once, when the process is opened
 *	snapshot -> plan                with the process running: nearly all errors show here
 *	stop -> snapshot again, equal?  if somebody switched meanwhile, plan again
 *	apply -> release
 */
#include "process/process.h"

#include <errno.h>
#include <stdlib.h>

#include "process/patch.h"
#include "process/plan.h"
#include "process/tracee.h"

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
	err = memory_open(ctx, pid, &proc->memory);
	if (!err)
		err = image_list_read(ctx, pid, &proc->images);
	if (!err)
		err = live_make(ctx, &proc->images, &proc->live);
	if (err) {
		ocp_process_free(proc);
		return err;
	}
	*out = proc;
	return 0;
}

void ocp_process_free(struct ocp_process *proc)
{
	if (!proc)
		return;
	live_free(&proc->live);
	image_list_free(&proc->images);
	memory_close(proc->memory);
	free(proc);
}

pid_t ocp_process_pid(const struct ocp_process *proc)
{
	return proc->pid;
}

const char *ocp_process_exe(const struct ocp_process *proc)
{
	return proc->images.exe_path;
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

int ocp_process_read_states(struct ocp_process *proc, enum ocp_state *states)
{
	struct snapshot snapshot;
	int err = snapshot_read(proc->ctx, proc->memory, &proc->live, &snapshot);

	if (err)
		return err;
	for (size_t i = 0; i < proc->live.n_probes; i++)
		states[i] = snapshot_state(&proc->live, &snapshot, i);
	snapshot_free(&snapshot);
	return 0;
}

static int make_plan(struct ocp_process *proc, const struct ocp_actions *actions,
		     struct snapshot *snapshot, struct plan *plan)
{
	int err = snapshot_read(proc->ctx, proc->memory, &proc->live, snapshot);

	if (err)
		return err;
	err = plan_make(proc->ctx, &proc->images, &proc->live, snapshot, actions, plan);
	if (err)
		snapshot_free(snapshot);
	return err;
}

/* With the process stopped: is the plan still right? If not, make it anew. */
static int renew_plan(struct ocp_process *proc, const struct ocp_actions *actions,
		      const struct snapshot *before, struct plan *plan)
{
	struct snapshot now;
	int err = snapshot_read(proc->ctx, proc->memory, &proc->live, &now);

	if (err)
		return err;
	if (!snapshot_equal(&proc->live, before, &now)) {
		plan_free(plan);
		err = plan_make(proc->ctx, &proc->images, &proc->live, &now, actions, plan);
	}
	snapshot_free(&now);
	return err;
}

int ocp_process_update(struct ocp_process *proc, const struct ocp_actions *actions)
{
	struct tracee *tracee = NULL;
	struct snapshot before;
	struct plan plan;
	int err = make_plan(proc, actions, &before, &plan);

	if (err)
		return err;
	/* Nothing to do is found out without a stop. */
	if (plan.n) {
		err = tracee_stop(proc->ctx, proc->pid, &tracee);
		if (!err)
			err = renew_plan(proc, actions, &before, &plan);
		if (!err)
			err = patch_apply(proc->ctx, proc->pid, plan.writes, plan.n);
		tracee_release(tracee);
	}
	if (!err)
		ctx_log(proc->ctx, OCP_LOG_INFO, "pid %d: %zu writes", (int)proc->pid, plan.n);
	plan_free(&plan);
	snapshot_free(&before);
	return err;
}

/* Switch the probes of a process that is stopped already. */
static int update_stopped(struct ocp_process *proc, const struct ocp_actions *actions)
{
	struct snapshot snapshot;
	struct plan plan;
	int err = make_plan(proc, actions, &snapshot, &plan);

	if (err)
		return err;
	err = patch_apply(proc->ctx, proc->pid, plan.writes, plan.n);
	plan_free(&plan);
	snapshot_free(&snapshot);
	return err;
}

/* Enable in the new process PID what ACTIONS enable. */
static int update_new(struct ocp_ctx *ctx, pid_t pid, const struct ocp_actions *actions)
{
	struct ocp_actions *enable = actions_enabling(actions);
	struct ocp_process *proc = NULL;
	int err = enable ? ocp_process_open(ctx, pid, &proc) : -ENOMEM;

	if (!err)
		err = update_stopped(proc, enable);
	ocp_process_free(proc);
	ocp_actions_free(enable);
	return err;
}

int ocp_trace(struct ocp_ctx *ctx, const char *path, char *const argv[],
	      const struct ocp_actions *actions, pid_t *pid)
{
	struct tracee *tracee;
	int err = tracee_spawn(ctx, path, argv, &tracee);

	if (err)
		return err;
	*pid = tracee_pid(tracee);
	if (actions)
		err = update_new(ctx, *pid, actions);
	if (err)
		tracee_kill(tracee);
	else
		tracee_release(tracee);
	return err;
}

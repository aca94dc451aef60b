// SPDX-License-Identifier: MIT
/* Start a program with probes enabled from its first instruction. */
#include <errno.h>
#include <stddef.h>

#include "change/stop/tracee.h"
#include "change/switch/actions.h"
#include "process/process.h"

/* Carry out those of ACTIONS that enable probes, in the new process PROC. */
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

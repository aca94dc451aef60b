// SPDX-License-Identifier: MIT
/*
 * restrict PID FILE [--no-copies] [ACTION NAME]: what is left of a process when FILE's probes
 * alone count. Prints NAME SITES STATE, a line a probe, after the action if there is one.
 */
#include <ocaml_probes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int act(struct ocp_ctx *ctx, struct ocp_process *proc, const char *action, const char *name)
{
	struct ocp_actions *actions = ocp_actions_new(ctx);
	int err = strcmp(action, "enable") == 0 ? ocp_actions_enable(actions, name)
						: ocp_actions_disable(actions, name);

	if (!err)
		err = ocp_process_update(proc, actions, 0);
	ocp_actions_free(actions);
	return err;
}

static int show(struct ocp_process *proc)
{
	static const char *const names[] = { "disabled", "enabled", "mixed" };
	size_t n = ocp_process_probe_count(proc);
	enum ocp_state *states = calloc(n + 1, sizeof(*states));
	int err = ocp_process_read_states(proc, OCP_ATOMICALLY, states);

	for (size_t i = 0; !err && i < n; i++)
		printf("%s %zu %s\n", ocp_process_probe_name(proc, i),
		       ocp_process_probe_sites(proc, i), names[states[i]]);
	free(states);
	return err;
}

int main(int argc, char **argv)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog = NULL;
	struct ocp_process *proc = NULL;
	unsigned int flags = 0;
	int err;

	if (argc > 3 && strcmp(argv[3], "--no-copies") == 0)
		flags = OCP_NO_COPIES;
	err = ocp_program_open(ctx, argv[2], &prog);
	if (!err)
		err = ocp_process_open(ctx, atoi(argv[1]), &proc);
	if (!err)
		err = ocp_process_restrict(proc, prog, flags);
	if (!err && argc == 5)
		err = act(ctx, proc, argv[3], argv[4]);
	if (!err)
		err = show(proc);
	if (err)
		printf("%d %s\n", err, ocp_error(ctx));
	ocp_process_free(proc);
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
	return 0;
}

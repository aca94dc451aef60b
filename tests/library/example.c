// SPDX-License-Identifier: MIT
/*
 * A page of the library: show the probes of a process, run the handlers of some for a second, and
 * put everything back.
 *
 *	cc example.c $(pkg-config --cflags --libs ocaml_probes) -o example
 *	./example PID REGEXP
 */
#include <ocaml_probes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int show(struct ocp_process *proc)
{
	static const char *const names[] = { "disabled", "enabled", "mixed" };
	size_t n = ocp_process_probe_count(proc);
	enum ocp_state *states = (enum ocp_state *)calloc(n + 1, sizeof(*states));
	int err = ocp_process_read_states(proc, 0, states);

	for (size_t i = 0; !err && i < n; i++)
		printf("%s %s\n", ocp_process_probe_name(proc, i), names[states[i]]);
	free(states);
	return err;
}

static int switch_for_a_second(struct ocp_ctx *ctx, struct ocp_process *proc, const char *regexp)
{
	struct ocp_actions *actions = ocp_actions_new(ctx);
	struct ocp_undo *undo = NULL;
	int err = ocp_actions_enable_regexp(actions, regexp);

	if (!err)
		err = ocp_process_update_undoable(proc, actions, 0, &undo);
	if (!err)
		err = show(proc);
	if (undo) {
		sleep(1);
		err = ocp_undo_run(undo);
	}
	ocp_undo_free(undo);
	ocp_actions_free(actions);
	return err;
}

int main(int argc, char **argv)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_process *proc = NULL;
	int err;

	if (argc != 3 || !ctx)
		return 2;
	err = ocp_process_open(ctx, atoi(argv[1]), &proc);
	if (!err)
		err = switch_for_a_second(ctx, proc, argv[2]);
	if (!err)
		err = show(proc);
	if (err)
		fprintf(stderr, "example: %s\n", ocp_error(ctx));
	ocp_process_free(proc);
	ocp_ctx_free(ctx);
	return err != 0;
}

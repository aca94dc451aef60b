// SPDX-License-Identifier: MIT
/*
 * phases PROG: a program started held, switched before it runs, let go, held again, read and
 * switched at one moment, let go. Prints a line a step; what it expects is in tests/e2e/library.sh.
 */
#include <ocaml_probes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ocp_ctx *ctx;

static void must(const char *what, int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s (%d)\n", what, ocp_error(ctx), err);
	exit(1);
}

static void print_states(const char *step, struct ocp_process *proc, unsigned int flags)
{
	size_t n = ocp_process_probe_count(proc);
	enum ocp_state *states = calloc(n + 1, sizeof(*states));

	must("read", ocp_process_read_states(proc, flags, states));
	printf("%s:", step);
	for (size_t i = 0; i < n; i++)
		printf(" %s=%d", ocp_process_probe_name(proc, i), states[i]);
	printf("\n");
	free(states);
}

static bool begins_with_g(void *data, const char *name)
{
	++*(int *)data;
	return name[0] == 'g';
}

static char state_of(pid_t pid)
{
	char path[64], line[512], state = '?';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f && fgets(line, sizeof(line), f))
		state = strrchr(line, ')')[2];
	if (f)
		fclose(f);
	return state;
}

int main(int argc, char **argv)
{
	struct ocp_actions *actions;
	struct ocp_process *proc;
	int asked = 0, status;
	pid_t pid;

	if (argc != 2)
		return 2;
	ctx = ocp_ctx_new();
	must("spawn", ocp_process_spawn(ctx, argv[1], argv + 1, &proc));
	pid = ocp_process_pid(proc);
	printf("spawned: %c\n", state_of(pid));

	actions = ocp_actions_new(ctx);
	must("pair", ocp_actions_enable_pair(actions, "alpha", "beta"));
	must("predicate", ocp_actions_enable_if(actions, begins_with_g, &asked));
	must("update", ocp_process_update(proc, actions, 0));
	printf("predicate asked about all: %d\n", asked >= 3);
	print_states("held", proc, 0);
	ocp_process_release(proc);
	printf("released: %d\n", state_of(pid) != 't');
	ocp_actions_free(actions);

	must("hold", ocp_process_hold(proc));
	printf("held: %c, again: %d\n", state_of(pid), ocp_process_hold(proc));
	actions = ocp_actions_new(ctx);
	must("regexp", ocp_actions_disable_regexp(actions, "\\(alpha\\|gamma\\)"));
	must("dry run", ocp_process_update(proc, actions, OCP_DRY_RUN));
	print_states("dry run", proc, 0);
	must("update", ocp_process_update(proc, actions, 0));
	print_states("switched", proc, OCP_ATOMICALLY);
	ocp_process_release(proc);
	ocp_actions_free(actions);

	actions = ocp_actions_new(ctx);
	must("name", ocp_actions_disable(actions, "alpha"));
	printf("disabled twice: %d, with force: ", ocp_process_update(proc, actions, 0));
	printf("%d\n", ocp_process_update(proc, actions, OCP_FORCE | OCP_ATOMICALLY));
	ocp_actions_free(actions);
	print_states("in the end", proc, OCP_ATOMICALLY);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("its status: %d\n", status);
	ocp_process_free(proc);
	ocp_ctx_free(ctx);
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * toggler TOGGLES PROGRAM [ARGUMENT...]
 *
 * Starts PROGRAM, waits until it has said "ready", switches its probes TOGGLES times while it runs,
 * all or one of them, at irregular moments, switches all off, closes its stdin and waits for its
 * end. Its further output goes to stdout. The status is its own, or 1 if a switch failed.
 *
 * With TOGGLES 0 it is any program: its probes are switched until it ends, and stderr is told how
 * often that was.
 */
#include <errno.h>
#include <fcntl.h>
#include <ocaml_probes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct ocp_ctx *ctx;
static struct ocp_process *proc;
static size_t n_probes;
static bool *is_on;

static void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "toggler: %s\n", ocp_error(ctx));
	exit(1);
}

/* Start ARGV with pipes as its stdin and stdout. */
static pid_t start(char **argv, int *to, FILE **from)
{
	int in[2], out[2], saved_in = dup(0), saved_out = dup(1);
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || fcntl(saved_in, F_SETFD, FD_CLOEXEC) ||
	    fcntl(saved_out, F_SETFD, FD_CLOEXEC)) {
		perror("toggler");
		exit(1);
	}
	dup2(in[0], 0);
	dup2(out[1], 1);
	must(ocp_trace(ctx, argv[0], argv, NULL, &pid));
	dup2(saved_in, 0);
	dup2(saved_out, 1);
	close(in[0]);
	close(out[1]);
	*to = in[1];
	*from = fdopen(out[0], "r");
	return pid;
}

/* Add the switch of PROBE, unless it is as it is to be. */
static size_t add(struct ocp_actions *actions, size_t probe, bool on)
{
	const char *name = ocp_process_probe_name(proc, probe);

	if (is_on[probe] == on)
		return 0;
	must(on ? ocp_actions_enable(actions, name) : ocp_actions_disable(actions, name));
	is_on[probe] = on;
	return 1;
}

static size_t add_all(struct ocp_actions *actions, bool on)
{
	size_t added = 0;

	for (size_t i = 0; i < n_probes; i++)
		added += add(actions, i, on);
	return added;
}

/* Returns false when the process has ended. */
static bool toggle(unsigned int choice)
{
	struct ocp_actions *actions = ocp_actions_new(ctx);
	size_t probe = (choice >> 8) % n_probes;
	int err;

	/* All on, all off, one the other way. */
	if (choice % 3 == 2 || !add_all(actions, choice % 3 == 1))
		add(actions, probe, !is_on[probe]);
	err = ocp_process_update(proc, actions, 0);
	ocp_actions_free(actions);
	if (err == -ESRCH)
		return false;
	must(err);
	return true;
}

static void read_states(void)
{
	enum ocp_state *states;

	n_probes = ocp_process_probe_count(proc);
	states = calloc(n_probes, sizeof(*states));
	is_on = calloc(n_probes, sizeof(*is_on));
	if (!n_probes || !states || !is_on) {
		fprintf(stderr, "toggler: no probes\n");
		exit(1);
	}
	must(ocp_process_read_states(proc, 0, states));
	for (size_t i = 0; i < n_probes; i++)
		is_on[i] = states[i] == OCP_ENABLED;
	free(states);
}

/* Returns how often, fewer than LIMIT (0: there is none) if the process has ended. */
static unsigned int toggle_often(unsigned int limit)
{
	unsigned int random = 1, toggles;

	for (toggles = 0; !limit || toggles < limit; toggles++) {
		random = random * 1664525 + 1013904223;
		if (!toggle(random >> 8))
			break;
		usleep((random >> 4) % 256);
	}
	return toggles;
}

static void switch_all(bool on)
{
	struct ocp_actions *actions = ocp_actions_new(ctx);

	if (add_all(actions, on))
		must(ocp_process_update(proc, actions, 0));
	ocp_actions_free(actions);
}

/*
 * With all on, until the process has run: on a busy machine it may have had no turn so far but
 * while all was off. One that mostly sleeps is given some time instead.
 */
static void let_run_with_all_on(pid_t pid)
{
	enum { CPU_MS = 30, MOST_TRIES = 1000 };
	struct timespec before = { 0 }, now = { 0 };
	clockid_t clock;
	int64_t ns = 0;

	switch_all(true);
	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &before))
		return;
	for (int i = 0; i < MOST_TRIES && ns < CPU_MS * 1000000LL; i++) {
		usleep(1000);
		if (clock_gettime(clock, &now))
			return;
		ns = (now.tv_sec - before.tv_sec) * 1000000000LL + now.tv_nsec - before.tv_nsec;
	}
}

static int status_of(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int toggle_until_end(char **argv)
{
	unsigned int toggles;
	siginfo_t info;
	pid_t pid;

	must(ocp_trace(ctx, argv[0], argv, NULL, &pid));
	must(ocp_process_open(ctx, pid, &proc));
	read_states();
	toggles = toggle_often(0);
	fprintf(stderr, "toggled %u times\n", toggles);
	/* A child that ends while it is being stopped may have been waited for by the library. */
	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == ECHILD)
		return 0;
	return status_of(pid);
}

static int toggle_when_ready(unsigned int limit, char **argv)
{
	char line[4096];
	FILE *from;
	pid_t pid;
	int to;

	pid = start(argv, &to, &from);
	if (!from || !fgets(line, sizeof(line), from) || strcmp(line, "ready\n") != 0) {
		fprintf(stderr, "toggler: %s is not ready\n", argv[0]);
		return 1;
	}
	must(ocp_process_open(ctx, pid, &proc));
	read_states();
	if (toggle_often(limit) < limit) {
		fprintf(stderr, "toggler: %s ended too early\n", argv[0]);
	} else {
		let_run_with_all_on(pid);
		switch_all(false);
	}
	close(to);
	while (fgets(line, sizeof(line), from))
		fputs(line, stdout);
	fclose(from);
	return status_of(pid);
}

int main(int argc, char **argv)
{
	int limit, status;

	if (argc < 3)
		return 2;
	ctx = ocp_ctx_new();
	limit = atoi(argv[1]);
	status = limit > 0 ? toggle_when_ready((unsigned int)limit, argv + 2)
			   : toggle_until_end(argv + 2);
	free(is_on);
	ocp_process_free(proc);
	ocp_ctx_free(ctx);
	return status;
}

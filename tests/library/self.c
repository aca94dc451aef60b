// SPDX-License-Identifier: MIT
/*
 * A program that switches its own probes, and those of a plugin it loads, while its threads run
 * through the sites at full speed. Built with fixture unit `self`; argument: the plugin.
 */
#include <dlfcn.h>
#include <ocaml_probes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void self_round(void);
void self_report(void);

enum { N_THREADS = 4 };

static atomic_bool finish;
static atomic_uint rounds[N_THREADS];
static struct ocp_ctx *ctx;

static void (*plugin_round)(void);

static void *run(void *arg)
{
	atomic_uint *n = arg;

	while (!finish) {
		self_round();
		plugin_round();
		++*n;
	}
	return NULL;
}

/* Every thread has gone through all sites in the state that they are in. */
static void await_rounds(void)
{
	for (int i = 0; i < N_THREADS; i++) {
		unsigned int before = rounds[i];

		while (rounds[i] - before < 2)
			usleep(100);
	}
}

static void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "self: %s\n", ocp_error(ctx));
	exit(1);
}

static void switch_all(struct ocp_process *self, int on)
{
	struct ocp_actions *actions = ocp_actions_new(ctx);

	must(on ? ocp_actions_enable_all(actions) : ocp_actions_disable_all(actions));
	must(ocp_process_update(self, actions, 0));
	ocp_actions_free(actions);
}

int main(int argc, char **argv)
{
	void (*plugin_report)(void);
	struct ocp_process *self;
	enum ocp_state states[8];
	pthread_t threads[N_THREADS];
	size_t before;
	void *plugin;

	ctx = ocp_ctx_new();
	must(ocp_process_open(ctx, getpid(), &self));
	before = ocp_process_probe_count(self);
	printf("own probes: %zu\n", before);
	ocp_process_free(self);

	plugin = dlopen(argv[argc - 1], RTLD_NOW);
	if (!plugin)
		return 1;
	*(void **)&plugin_round = dlsym(plugin, "plugin_round");
	*(void **)&plugin_report = dlsym(plugin, "plugin_report");
	must(ocp_process_open(ctx, getpid(), &self));
	printf("with the plugin's: %zu\n", ocp_process_probe_count(self));

	for (int i = 0; i < N_THREADS; i++)
		pthread_create(&threads[i], NULL, run, &rounds[i]);
	await_rounds();
	for (int i = 0; i < 2000; i++) {
		switch_all(self, i % 2 == 0);
		if (i == 0)
			await_rounds();
	}
	must(ocp_process_read_states(self, 0, states));
	for (size_t i = 0; i < ocp_process_probe_count(self); i++)
		printf("%s %d\n", ocp_process_probe_name(self, i), states[i]);
	printf("atomically: %d\n", ocp_process_read_states(self, OCP_ATOMICALLY, states));
	finish = true;
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	self_report();
	plugin_report();
	ocp_process_free(self);
	ocp_ctx_free(ctx);
	return 0;
}

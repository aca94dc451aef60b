// SPDX-License-Identifier: MIT
/*
 * The stacks of hits: tells the stack walker which processes to prepare, and reads the counts by
 * stack.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "measure/engine/engine_bpf.h"
#include "kernel/pid_namespace.h"
#include "kernel/maps.h"
#include "unwind/stack_store.h"
#include "unwind/stack_walker.h"

/* ---- files and processes -------------------------------------------------------------------- */

/*
 * Add the executable of the measured program to the walker. PATH names an open descriptor
 * (/proc/self/fd/N).
 */
static int add_program_file(struct engine *engine, const char *path)
{
	const struct walk_inode inode = { engine->config.exe_dev, engine->config.exe_ino };
	char name[PATH_MAX];
	struct stat by_name, st;
	const ssize_t n = readlink(path, name, sizeof(name) - 1);

	/*
	 * Functions without symbols are shown with the name of the file: use its real path if it
	 * still exists.
	 */
	if (n > 0) {
		name[n] = '\0';
		if (stat(name, &by_name) == 0 && stat(path, &st) == 0 &&
		    by_name.st_dev == st.st_dev && by_name.st_ino == st.st_ino)
			path = name;
	}
	return stack_walker_add_file(engine->walker, path, &inode);
}

int engine_bpf_open_stacks(struct engine *engine, const char *exe)
{
	const struct walk_maps maps = {
		.tables = engine->object.walk_tables,
		.rules = engine->object.walk_rules,
		.processes = engine->object.walk_processes,
		.files = engine->object.walk_files,
		.news = engine->object.walk_news,
	};

	int err = stack_walker_open(engine->ctx, &maps, &engine->walker);

	return err || !exe ? err : add_program_file(engine, exe);
}

int engine_bpf_walk(struct engine *engine, pid_t pid)
{
	const struct pid_namespace ns = { engine->config.pidns_dev, engine->config.pidns_ino };
	uint32_t id;
	int err = pid_namespace_id(engine->ctx, &ns, pid, &id);

	return err ? err : stack_walker_add_process(engine->walker, pid, id);
}

/*
 * Refresh the walker. Then add the newcomers to it: processes whose stacks were walked although
 * they had not been added. Walks are faster in a process that was added. A newcomer whose id in the
 * pid namespace of the BPF programs differs from its id in ours is not added.
 */
int engine_bpf_refresh_stacks(struct engine *engine)
{
	const struct pid_namespace ns = { engine->config.pidns_dev, engine->config.pidns_ino };
	const uint32_t *newcomers;
	size_t n;
	int err = stack_walker_refresh(engine->walker);

	newcomers = stack_walker_newcomers(engine->walker, &n);
	for (size_t i = 0; i < n && !err; i++) {
		uint32_t id;

		if (pid_namespace_id(engine->ctx, &ns, (pid_t)newcomers[i], &id) == 0 &&
		    id == newcomers[i])
			stack_walker_add_process(engine->walker, (pid_t)id, id);
	}
	return err;
}

struct stack_walker *engine_bpf_walker(struct engine *engine)
{
	return engine->walker;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int read_costs(struct engine *engine, struct measure_walk_costs *sum)
{
	int err = map_sum_counters(engine->object.walk_costs, sum, sizeof(*sum) / sizeof(sum->ns));

	return err ? bpf_support_explain(engine->ctx, err, "reading the stacks") : 0;
}

int engine_bpf_read_walk_ns(struct engine *engine, uint64_t *ns)
{
	struct measure_walk_costs costs = { 0 };
	int err = engine->walker ? read_costs(engine, &costs) : 0;

	*ns = costs.ns;
	return err;
}

static struct engine_stack stack_of(const struct stack_store *store,
				    const struct measure_stack_key *key,
				    const struct measure_stack_count *count)
{
	return (struct engine_stack){
		.stack = key->stack == MEASURE_STACK_LOST ? NULL
							  : stack_store_find(store, key->stack),
		.number = key->what & ~(uint32_t)MEASURE_STACK_PAIR,
		.is_pair = key->what & MEASURE_STACK_PAIR,
		.count = *count,
	};
}

static int read_counts(struct engine *engine, struct measure_stack_key **keys,
		       struct measure_stack_count **counts, size_t *n)
{
	void *its_keys, *values;
	int err = map_read_all(engine->ctx, engine->object.stack_counts, sizeof(**keys),
			       sizeof(**counts), MEASURE_MAX_STACK_COUNTS, &its_keys, &values, n);

	*keys = its_keys;
	*counts = values;
	return err;
}

int engine_bpf_read_stacks(struct engine *engine, struct engine_stacks *stacks)
{
	const struct stack_maps maps = { engine->object.stacks, engine->object.stack_losses };
	struct measure_stack_key *keys;
	struct measure_stack_count *counts;
	size_t n;
	int err;

	*stacks = (struct engine_stacks){ 0 };
	/* Read the counts before the stacks: a stack is stored before it is counted. */
	err = read_counts(engine, &keys, &counts, &n);
	if (!err)
		err = stack_store_read(engine->ctx, &maps, &stacks->store);
	if (!err)
		stacks->list = calloc(n + 1, sizeof(*stacks->list));
	if (!err && !stacks->list)
		err = ctx_no_memory(engine->ctx);
	for (size_t i = 0; !err && i < n; i++)
		stacks->list[stacks->n++] = stack_of(stacks->store, &keys[i], &counts[i]);
	if (!err)
		err = stack_losses_read(engine->ctx, &maps, &stacks->losses);
	if (!err)
		err = read_costs(engine, &stacks->costs);
	free(keys);
	free(counts);
	return err;
}

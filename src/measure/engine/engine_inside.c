// SPDX-License-Identifier: MIT
/*
 * The engine that counts inside of processes: trampolines (change/inside/inside.h) take the place
 * of uprobes. The engine needs only the right to ptrace the processes. It measures processes that
 * are given by pid, and the children that these fork, and refuses features that need the kernel.
 * Each process is attached and detached separately.
 */
#include "measure/engine/engine_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/search.h"
#include "measure/engine/event_matcher.h"
#include "measure/engine/inside_process.h"

struct engine {
	struct ocp_ctx *ctx;
	struct inside_plan plan;
	struct inside_process **processes; /* attached processes */
	size_t n_processes;
	bool is_detached;
	bool is_found; /* an earlier tool attached the processes */
	bool is_kept;
	int64_t printed_ns; /* see engine_ops.printed_until */
};

/*
 * At an event, a thread reads a counter of its CPU. An upper bound of the error of its time; the
 * real error is much smaller (SETTLED_TICKS in change/inside/records.c).
 */
enum { SETTLED_NS = 1000 * 1000 };

const char *engine_inside_cannot(const struct engine_spec *spec)
{
	if (spec->n_histograms)
		return "histograms of arguments";
	if (spec->by.is_on && spec->request.event_bytes)
		return "single hits that are grouped by an argument";
	if ((spec->request.printed.n || spec->request.has_slower) && !spec->request.event_bytes)
		return "single hits";
	if (spec->request.split == OCP_BY_THREAD)
		return "counts by thread";
	if (spec->request.stack_depth)
		return "stacks";
	if (spec->exe || !spec->pid)
		return "every process of a program";
	return NULL;
}

static int open_engine(struct ocp_ctx *ctx, const struct engine_spec *spec, struct engine **out)
{
	const char *cannot = engine_inside_cannot(spec);
	struct engine *engine;

	*out = NULL;
	if (cannot)
		return ctx_error(ctx, -ENOTSUP, "the engine `inside` does not measure %s", cannot);
	engine = calloc(1, sizeof(*engine));
	if (!engine)
		return ctx_no_memory(ctx);
	*engine = (struct engine){
		.ctx = ctx,
		.plan = { .roles = calloc(spec->n_roles + 1, sizeof(*engine->plan.roles)),
			  .n_pairs = spec->request.n_pairs,
			  .max_sites = spec->max_sites,
			  .depth = spec->request.depth,
			  .by_process = spec->request.split == OCP_BY_PROCESS,
			  .by = spec->by },
	};
	if (spec->request.event_bytes) {
		engine->plan.event_bytes = spec->request.event_bytes;
		engine->plan.points = calloc(2 * spec->max_sites + 1, sizeof(*engine->plan.points));
	}
	if (!engine->plan.roles || (engine->plan.event_bytes && !engine->plan.points)) {
		free(engine->plan.roles);
		free(engine);
		return ctx_no_memory(ctx);
	}
	for (size_t i = 0; i < spec->n_roles; i++)
		engine->plan.roles[i] = spec->roles[i];
	if (spec->filter)
		engine->plan.filter = *spec->filter;
	engine->plan.held = spec->held;
	*out = engine;
	return 0;
}

/* ---- attaching ------------------------------------------------------------------------------ */

static int describe_counters(struct engine *engine, const char *name, char *text)
{
	if (strlen(name) >= sizeof(engine->plan.meta.name)) {
		free(text);
		return ctx_error(engine->ctx, -EINVAL, "'%s': too long a name", name);
	}
	free(engine->plan.meta.text);
	engine->plan.meta = (struct inside_meta){ .text = text, .text_bytes = strlen(text) + 1 };
	memcpy(engine->plan.meta.name, name, strlen(name));
	return 0;
}

static int append_process(struct engine *engine, struct inside_process *process)
{
	struct inside_process **new = array_add(engine->processes, engine->n_processes);

	if (!new)
		return ctx_no_memory(engine->ctx);
	*new = process;
	return 0;
}

static bool is_listed(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Set *PIDS to the *N processes that the files list. The caller frees *PIDS. */
static int list_pids(struct engine *engine, const struct engine_file *files, size_t n_files,
		     pid_t **pids, size_t *n)
{
	size_t room = 1;

	*n = 0;
	for (size_t i = 0; i < n_files; i++)
		room += files[i].n_pids;
	*pids = calloc(room, sizeof(**pids));
	if (!*pids)
		return ctx_no_memory(engine->ctx);
	for (size_t i = 0; i < n_files; i++)
		for (size_t j = 0; j < files[i].n_pids; j++)
			if (!is_listed(*pids, *n, files[i].pids[j]))
				(*pids)[(*n)++] = files[i].pids[j];
	return 0;
}

static int attach_process(struct engine *engine, pid_t pid, const struct engine_file *files,
			  size_t n)
{
	struct inside_process *process;
	int err = inside_process_attach(engine->ctx, &engine->plan, pid, files, n, &process);

	if (err)
		return err;
	err = append_process(engine, process);
	if (!err)
		return 0;
	if (inside_process_detach(process))
		inside_process_tell_left(process);
	inside_process_close(process);
	return err;
}

static void tell_not_counted(const struct engine *engine)
{
	const char *hint = ocp_hint(engine->ctx);

	ctx_log(engine->ctx, OCP_LOG_WARN, "%s%s%s%s: it is not counted", ocp_error(engine->ctx),
		hint ? " (" : "", hint ? hint : "", hint ? ")" : "");
}

/*
 * Attach to all processes. If there are several, warn of each process that has ended or cannot be
 * counted, and count in the other processes.
 */
static int attach_processes(struct engine *engine, const pid_t *pids, size_t n_pids,
			    const struct engine_file *files, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n_pids; i++) {
		int its_err = attach_process(engine, pids[i], files, n);

		if (its_err && (n_pids == 1 || its_err == -ENOMEM))
			return its_err;
		if (its_err)
			tell_not_counted(engine);
		err = err ? err : its_err;
	}
	if (err && !engine->n_processes)
		return ctx_error(engine->ctx, err, "none of the %zu processes can be counted",
				 n_pids);
	return 0;
}

/*
 * Detach from all processes. Return an error only if every detach failed. If TELLS, warn about each
 * process that still counts.
 */
static int detach_processes(struct engine *engine, bool tells)
{
	size_t n_failed = 0;
	int err = 0;

	for (size_t i = 0; i < engine->n_processes; i++) {
		int its_err = inside_process_detach(engine->processes[i]);

		if (!its_err)
			continue;
		err = its_err;
		n_failed++;
		if (tells)
			inside_process_tell_left(engine->processes[i]);
	}
	/* If at least one detach succeeded, its counts are complete, so this is success. */
	return n_failed && n_failed == engine->n_processes ? err : 0;
}

static void close_processes(struct engine *engine)
{
	for (size_t i = 0; i < engine->n_processes; i++)
		inside_process_close(engine->processes[i]);
	engine->n_processes = 0;
}

static int attach_all_files(struct engine *engine, const struct engine_file *files, size_t n)
{
	pid_t *pids;
	size_t n_pids;
	int err = list_pids(engine, files, n, &pids, &n_pids);

	if (!err && (engine->n_processes || !n_pids))
		err = ctx_error(engine->ctx, -ENOTSUP,
				"the engine `inside` does not measure files that are loaded later");
	else if (!err)
		err = attach_processes(engine, pids, n_pids, files, n);
	if (err == -ENOMEM) {
		detach_processes(engine, true);
		close_processes(engine);
		ctx_no_memory(engine->ctx);
	}
	free(pids);
	return err;
}

size_t engine_inside_n_processes(const struct engine *engine)
{
	return engine->n_processes;
}

/* ---- results, and the end ------------------------------------------------------------------- */

/*
 * Compare two groups by probe and value, those of pairs behind those of probes. The group of the
 * values without room is the last one.
 */
static int compare_groups(const void *a, const void *b)
{
	const struct engine_group *x = a, *y = b;

	if (!x->times != !y->times)
		return x->times ? 1 : -1;
	if (x->value.what != y->value.what)
		return COMPARE(x->value.what, y->value.what);
	if (x->is_others != y->is_others)
		return x->is_others ? 1 : -1;
	return x->value.type != y->value.type ? COMPARE(x->value.type, y->value.type)
					      : COMPARE(x->value.number, y->value.number);
}

/* Add the times of FROM to those of TO: both are in the array TIMES. */
static void join_times(struct measure_by_times *times, const struct engine_group *to,
		       const struct engine_group *from)
{
	struct measure_by_times *sum = &times[to->times - times];

	sum->count += from->times->count;
	sum->sum_ns += from->times->sum_ns;
	if (from->times->min_ns_not > sum->min_ns_not)
		sum->min_ns_not = from->times->min_ns_not;
	if (from->times->max_ns > sum->max_ns)
		sum->max_ns = from->times->max_ns;
	for (size_t i = 0; i < MEASURE_BUCKETS; i++)
		sum->buckets[i] += from->times->buckets[i];
}

/* Join the groups of the same value in several processes. */
static void join_groups(struct engine_reading *reading)
{
	size_t n = 0;

	if (reading->n_groups)
		qsort(reading->groups, reading->n_groups, sizeof(*reading->groups), compare_groups);
	for (size_t i = 0; i < reading->n_groups; i++) {
		struct engine_group *last = n ? &reading->groups[n - 1] : NULL;
		const struct engine_group *group = &reading->groups[i];

		if (!last || compare_groups(last, group) != 0) {
			reading->groups[n++] = *group;
			continue;
		}
		last->hits += group->hits;
		if (last->times)
			join_times(reading->group_times, last, group);
	}
	reading->n_groups = n;
}

/* Read the groups of times of all processes. */
static int read_time_groups(const struct engine *engine, struct engine_reading *reading)
{
	size_t room = 0, n;
	int err = 0;

	for (size_t i = 0; i < engine->n_processes; i++)
		room += inside_process_times_room(engine->processes[i]);
	if (!room || reading->only_hits)
		return 0;
	reading->group_times = calloc(room, sizeof(*reading->group_times));
	if (!reading->group_times)
		return ctx_no_memory(engine->ctx);
	room = 0;
	for (size_t i = 0; !err && i < engine->n_processes; i++) {
		err = inside_process_add_times(engine->processes[i], reading,
					       reading->group_times + room, &n);
		room += n;
	}
	return err;
}

static int read_engine(struct engine *engine, struct engine_reading *reading)
{
	int err = 0;

	for (size_t i = 0; !err && i < engine->n_processes; i++)
		err = inside_process_add(engine->processes[i], reading);
	if (!err)
		err = read_time_groups(engine, reading);
	if (!err)
		join_groups(reading);
	return err;
}

static int print_events(struct engine *engine, bool all, engine_print_fn fn, void *data)
{
	const int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int err = 0;

	for (size_t i = 0; !err && engine->plan.points && i < engine->n_processes; i++)
		err = event_matcher_print(inside_process_events(engine->processes[i]), all, fn,
					  data);
	if (!err)
		engine->printed_ns = now_ns - SETTLED_NS;
	return err;
}

static int64_t events_printed_until(const struct engine *engine)
{
	return engine->printed_ns;
}

static int read_open_events(struct engine *engine, struct engine_opens *opens)
{
	int err = 0;

	*opens = (struct engine_opens){ 0 };
	for (size_t i = 0; !err && engine->plan.points && i < engine->n_processes; i++)
		err = event_matcher_read_open(inside_process_events(engine->processes[i]), opens);
	return err;
}

static int detach(struct engine *engine)
{
	int err = engine->is_detached
			  ? 0
			  : detach_processes(engine, engine->is_found && engine->n_processes > 1);

	engine->is_detached = !err;
	return err;
}

static void close_engine(struct engine *engine)
{
	if (!engine)
		return;
	/* This also tries again to detach processes whose first detach failed. */
	if (!engine->is_found && !engine->is_kept)
		detach_processes(engine, true);
	close_processes(engine);
	free(engine->processes);
	free(engine->plan.meta.text);
	free(engine->plan.points);
	free(engine->plan.roles);
	free(engine);
}

/* ---- engines that outlive the tool ---------------------------------------------------------- */

static int keep_counters(struct engine *engine, const char *folder)
{
	(void)folder;
	engine->is_kept = true;
	return 0;
}

int engine_inside_new_found(struct ocp_ctx *ctx, struct engine **out)
{
	struct engine *engine = calloc(1, sizeof(*engine));

	*out = engine;
	if (!engine)
		return ctx_no_memory(ctx);
	*engine = (struct engine){ .ctx = ctx, .is_found = true };
	return 0;
}

int engine_inside_add_found(struct engine *engine, pid_t pid, struct inside *inside,
			    struct inside_number *numbers, size_t n)
{
	struct inside_process *process;
	int err = inside_process_found(engine->ctx, pid, inside, numbers, n, &process);

	if (!err)
		err = append_process(engine, process);
	if (err)
		inside_process_close(process);
	return err;
}

bool engine_inside_counts_in(const struct engine *engine, pid_t pid)
{
	for (size_t i = 0; i < engine->n_processes; i++)
		if (inside_process_counts_in(engine->processes[i], pid))
			return true;
	return false;
}

/* ---- the rest of the interface -------------------------------------------------------------- */

static int check_inside_engine(struct ocp_ctx *ctx)
{
	(void)ctx;
	return 0;
}

static int switch_sites(struct engine *engine, const struct engine_file *file)
{
	return ctx_error(engine->ctx, -ENOTSUP,
			 "%s: the engine `inside` cannot switch single counters", file->name);
}

static void give_up_sites(struct engine *engine, size_t first, size_t n, uint64_t *hits)
{
	(void)engine;
	(void)first;
	if (hits)
		memset(hits, 0, n * sizeof(*hits));
}

static void unlist(struct engine *engine, pid_t pid)
{
	(void)engine;
	(void)pid;
}

static int forget_keys(struct engine *engine, engine_ended_fn has_ended, void *data,
		       struct engine_keyed **dropped, size_t *n)
{
	(void)engine;
	(void)has_ended;
	(void)data;
	*dropped = NULL;
	*n = 0;
	return 0;
}

const struct engine_ops engine_inside = {
	.name = "inside",
	.costs = inside_costs,
	.check = check_inside_engine,
	.open = open_engine,
	.attach = attach_all_files,
	.switch_sites = switch_sites,
	.give_up = give_up_sites,
	.unlist = unlist,
	.read = read_engine,
	.forget = forget_keys,
	.print = print_events,
	.printed_until = events_printed_until,
	.read_open = read_open_events,
	.detach = detach,
	.close = close_engine,
	.describe = describe_counters,
	.keep = keep_counters,
};

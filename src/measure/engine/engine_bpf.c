// SPDX-License-Identifier: MIT
/*
 * Measures with the kernel's uprobes: an int3 on the nop of each site, a BPF program that runs at
 * each hit (bpf/measure.bpf.c), and one uprobe_multi link per file.
 *
 * Which hits count. If a file is measured in one process, the kernel filters by that process.
 * Before Linux 6.10 the kernel filtered by a thread (bpf_support.c tests this). On such kernels,
 * and if a file is measured in several processes, the uprobes and raised semaphores are in every
 * process that maps the file, and the BPF program looks up the process in `tgids`. If our pid
 * namespace is the initial one, the BPF program uses the ids of the initial namespace. Otherwise it
 * uses ids in the namespace of the measured process: the helper that returns the ids of the current
 * task in a namespace works only if that is the task's own namespace. There is an exception: if all
 * processes of an executable are measured, and only sums over these processes are reported, the BPF
 * program always uses the ids of the initial namespace, because the processes may be in containers
 * with their own pid namespaces.
 *
 * Reused pids. The kernel's filter is for a process, but `tgids` contains numbers. If the kernel
 * has BTF and uprobe_multi, a process leaves `tgids` in its own exit, before its number is free, so
 * that no other process is counted, even by a pinned engine. On other kernels a process is removed
 * when its end is noticed (unlist). Until then, a process that gets the number and runs the same
 * file is counted: for a second if the caller refreshes every second, and without end if the engine
 * is pinned. A process that ended between open and attach is removed right after the attach. If
 * children are followed, such a process is not removed, and a later process that gets its number is
 * counted until that process ends.
 *
 * Exactness. All sites start and stop counting at one moment, by a gate in the memory of the BPF
 * program. The gate is opened when all sites are attached and closed before the first one is
 * detached. Closing a link returns after the kernel has removed the uprobes and waited for running
 * handlers, so a read after detach misses nothing. Sites can be switched off and on in between
 * (engine_bpf_links.c). A slot of the map `hits` is written with atomic adds and read by one 64-bit
 * load.
 */
#include "measure/engine/engine_bpf.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "kernel/kernel_file.h"
#include "kernel/link.h"
#include "kernel/maps.h"
#include "kernel/pid_namespace.h"
#include "unwind/stack_walker.h"

enum {
	MAX_FRAME_USERS = 65536, /* threads that are in a timed call */
	/*
	 * Processes whose mappings user space supplies; for others, the kernel's tree is searched.
	 */
	WALKED_PROCESSES = 1024,
};

#define KERNEL_BTF "/sys/kernel/btf/vmlinux" /* measure_full needs it */

/* ---- open ----------------------------------------------------------------------------------- */

/* Return true if the programs write records to the ring buffer. */
static bool makes_records(const struct engine_spec *spec)
{
	return spec->prints || spec->slower;
}

/*
 * Return true if the BPF programs report ids or look them up. Pairs need thread ids that are
 * unique, in whatever namespace.
 */
static bool needs_own_ids(const struct engine_spec *spec, const struct measure_config *config)
{
	return !spec->exe || config->keyed_by != MEASURE_UNKEYED || makes_records(spec) ||
	       spec->children || spec->stack_depth;
}

static int choose_pid_namespace(struct ocp_ctx *ctx, const struct engine_spec *spec,
				struct measure_config *config)
{
	const bool is_chosen = needs_own_ids(spec, config);
	struct pid_namespace ns;
	int err;

	if (!is_chosen && !spec->counts_processes)
		return 0;
	err = pid_namespace_choose(ctx, is_chosen ? spec->pid : 0, &ns);
	/* A tool outside of the initial pid namespace cannot use the ids of that namespace. */
	config->counts_processes = spec->counts_processes && (is_chosen || !ns.ino);
	if (err || !is_chosen)
		return err;
	config->pidns_dev = ns.dev;
	config->pidns_ino = ns.ino;
	return err;
}

/* Return how the roles of SPEC are matched, as the value of measure_config.matching. */
static __u32 matching_of(const struct engine_spec *spec)
{
	__u32 matching = 0;

	for (size_t i = 0; spec->n_pairs && i < spec->n_roles; i++) {
		const struct engine_role *role = &spec->roles[i];

		if (role->is_frame)
			continue;
		matching |= role->is_keyed ? MEASURE_SOME_BY_KEY : MEASURE_SOME_BY_THREAD;
		if (role->is_compared && !role->is_keyed)
			matching |= MEASURE_SOME_COMPARED;
	}
	return matching;
}

static bool reads_args(const struct engine_spec *spec)
{
	return spec->filter || spec->n_histograms || makes_records(spec) || spec->by.is_on ||
	       matching_of(spec) & (MEASURE_SOME_BY_KEY | MEASURE_SOME_COMPARED);
}

/*
 * Return true if this process measures only itself. A process may always inspect itself, even if it
 * is not dumpable because of file capabilities.
 */
static bool measures_itself(const struct engine_spec *spec)
{
	return spec->pid == getpid() && !spec->many_processes && !spec->children && !spec->exe;
}

enum measure_keyed_by engine_bpf_keyed_by(enum ocp_split split)
{
	switch (split) {
	case OCP_BY_THREAD:
		return MEASURE_BY_TID;
	case OCP_BY_PROCESS:
		return MEASURE_BY_TGID;
	default:
		return MEASURE_UNKEYED;
	}
}

static int configure(struct engine *engine, const struct engine_spec *spec)
{
	struct measure_config *config = &engine->config;
	struct kernel_file exe;
	int err;

	*config = (struct measure_config){
		.only_tgids = !spec->exe && (spec->many_processes || spec->children ||
					     (spec->pid && !engine->kernel_filters)),
		.keyed_by = engine_bpf_keyed_by(spec->split),
		.n_pairs = (__u32)spec->n_pairs,
		.depth = spec->depth,
		.matching = matching_of(spec),
		.children = spec->children,
		.args = reads_args(spec),
		.filters = spec->filter != NULL,
		.hist_arg = spec->n_histograms ? spec->hist_arg : MEASURE_NO_ARG,
		.prints = spec->prints,
		.print_limit = spec->print_limit,
		.hits_stride = (__u32)engine_bpf_hits_stride(spec->max_sites),
		.frames = spec->max_frames != 0,
		.conditions = spec->has_conditions,
		.domain_id = spec->domains.id,
		.domain_tls = spec->domains.tls,
		.stack_depth = spec->stack_depth,
		.slower_ns = spec->slower_ns,
		.by_arg = spec->by.arg,
		.by_max_times = spec->by.is_on && spec->n_pairs ? (__u32)spec->by.max_times : 0,
	};
	if (spec->exe) {
		err = kernel_file_find(spec->exe, &exe);
		if (err)
			return ctx_error(engine->ctx, err, "%s: %s", spec->exe, strerror(-err));
		config->exe_dev = exe.dev;
		config->exe_ino = exe.ino;
	}
	if (!measures_itself(spec)) {
		err = bpf_support_access(engine->ctx, config);
		if (err)
			return err;
	}
	return choose_pid_namespace(engine->ctx, spec, config);
}

/*
 * Set *VARIANT to the variant of the BPF programs that measures SPEC on this kernel. Return 0, or a
 * negative errno if SPEC needs a feature that the kernel lacks.
 */
static int choose_variant(struct engine *engine, const struct engine_spec *spec,
			  const struct engine_bpf_options *options, enum bpf_variant *variant)
{
	const bool needs_perf = options->perf_events || !engine->support.has_uprobe_multi;

	*variant = BPF_MULTI;
	if (needs_perf)
		*variant = BPF_PERF;
	else if (spec->exe || spec->children || engine->config.args ||
		 engine->config.checks_access ||
		 ((engine->config.only_tgids || spec->domains.max) &&
		  access(KERNEL_BTF, F_OK) == 0))
		*variant = BPF_FULL;
	if (spec->slower && !needs_perf)
		*variant = BPF_SLOWER;
	if (spec->stack_depth && !needs_perf)
		*variant = BPF_STACKS;
	if (spec->by.is_on && !needs_perf)
		*variant = BPF_BY;
	if (engine->config.checks_access && (needs_perf || access(KERNEL_BTF, F_OK) != 0)) {
		ctx_error(engine->ctx, -EPERM,
			  "measuring: ocaml-probes lacks CAP_SYS_PTRACE: leaving out other users' "
			  "processes needs %s, which this kernel lacks",
			  needs_perf ? "uprobe_multi links" : KERNEL_BTF);
		ctx_hint(engine->ctx, "run it as root");
		return -EPERM;
	}
	if (needs_perf && (spec->exe || spec->children))
		return ctx_error(engine->ctx, -EOPNOTSUPP,
				 "measuring: children and processes to come need uprobe_multi "
				 "links (Linux 6.6)");
	if (needs_perf && spec->stack_depth)
		return ctx_error(engine->ctx, -EOPNOTSUPP,
				 "measuring: stacks need uprobe_multi links (Linux 6.6)");
	if (needs_perf && engine->config.args)
		return ctx_error(engine->ctx, -EOPNOTSUPP,
				 "measuring: arguments need uprobe_multi links (Linux 6.6)");
	return 0;
}

static int load_measure_object(struct engine *engine, const struct engine_spec *spec,
			       const struct engine_bpf_options *options)
{
	const __u32 matching = engine->config.matching;
	const bool by_key = matching & MEASURE_SOME_BY_KEY;
	const struct bpf_object_setup setup = {
		.config = engine->config,
		.filter = spec->filter,
		.sizes = {
			.hits = engine->config.hits_stride * (uint32_t)engine->n_cpus,
			.sites = (uint32_t)spec->max_sites,
			.roles = (uint32_t)spec->n_roles,
			.pairs = (uint32_t)spec->n_pairs,
			.open_starts =
				matching & MEASURE_SOME_BY_THREAD ? (uint32_t)spec->max_open : 0,
			.compared =
				matching & MEASURE_SOME_COMPARED ? (uint32_t)spec->max_open : 0,
			.key_starts = by_key ? (uint32_t)spec->max_open : 0,
			.frames = (uint32_t)spec->max_frames,
			.frame_users = spec->max_frames ? MAX_FRAME_USERS : 0,
			.keys = engine->config.keyed_by ? (uint32_t)spec->max_keys : 0,
			.marks = spec->can_switch ? MEASURE_MARK_WORDS : 0,
			.tgids = engine->config.only_tgids ? (uint32_t)spec->max_processes : 0,
			.processes = spec->counts_processes ? (uint32_t)spec->max_processes : 0,
			.site_args = engine->config.args ? (uint32_t)spec->max_args : 0,
			.histograms = (uint32_t)spec->n_histograms,
			.key_users = by_key ? (uint32_t)spec->max_processes : 0,
			.domain_pairs = (uint32_t)spec->domains.max,
			.print_bytes = makes_records(spec) ? (uint32_t)spec->print_bytes : 0,
			.walked_processes = spec->stack_depth ? WALKED_PROCESSES : 0,
			.walks = spec->stack_depth ? (uint32_t)engine->n_cpus * WALK_SLOTS : 0,
			.by_hits = spec->by.is_on ? (uint32_t)spec->by.max_hits : 0,
			/* There are no more probes than sites. */
			.by_probes = spec->by.is_on ? (uint32_t)spec->max_sites : 0,
		},
	};
	enum bpf_variant variant;
	int err = choose_variant(engine, spec, options, &variant);

	if (err)
		return err;
	if ((uint64_t)engine->config.hits_stride * engine->n_cpus > UINT32_MAX)
		return ctx_error(engine->ctx, -E2BIG,
				 "measuring: %zu sites are too many for %zu processors",
				 spec->max_sites, engine->n_cpus);
	engine->uses_perf = variant == BPF_PERF;
	engine->sees_exits = ((variant == BPF_FULL || variant == BPF_SLOWER || variant == BPF_BY) &&
			      engine->config.only_tgids) ||
			     variant == BPF_STACKS;
	err = bpf_object_load(variant, &setup, &engine->object);
	if (err)
		return bpf_support_explain(engine->ctx, err, "loading the BPF programs");
	err = engine_bpf_map_hits(engine);
	if (!err)
		err = engine_bpf_map_serials(engine);
	if (!err && spec->stack_depth)
		err = engine_bpf_open_stacks(engine, spec->exe);
	if (err || !makes_records(spec))
		return err;
	err = print_ring_open(engine->object.prints, spec->print_bytes, spec->stack_depth,
			      &engine->ring);
	return err ? bpf_support_explain(engine->ctx, err, "mapping the ring buffer") : 0;
}

static int write_roles(struct engine *engine, const struct engine_spec *spec)
{
	engine->is_stop = calloc(spec->n_roles + 1, sizeof(*engine->is_stop));
	if (!engine->is_stop)
		return ctx_no_memory(engine->ctx);
	for (__u32 i = 0; i < spec->n_roles; i++) {
		const struct engine_role *asked = &spec->roles[i];
		const struct measure_role role = {
			.pair = asked->pair,
			.flags = (asked->is_stop ? MEASURE_ROLE_STOP : 0U) |
				 (asked->is_frame ? MEASURE_ROLE_FRAME : 0U) |
				 (asked->confirms ? MEASURE_ROLE_CONFIRM : 0U) |
				 (asked->is_keyed ? MEASURE_ROLE_KEYED : 0U) |
				 (asked->is_compared && !asked->is_keyed ? MEASURE_ROLE_COMPARED
									 : 0U),
			.key_arg = asked->key_arg,
		};
		int err = bpf_map_update_elem(engine->object.roles, &i, &role, 0);

		engine->is_stop[i] = asked->is_stop;
		if (err)
			return bpf_support_explain(engine->ctx, err, "writing the pairs");
	}
	return 0;
}

static int check_spec(struct ocp_ctx *ctx, const struct engine_spec *spec)
{
	if (spec->max_sites > UINT32_MAX || spec->max_keys > UINT32_MAX)
		return ctx_error(ctx, -E2BIG, "measuring: %zu sites are too many", spec->max_sites);
	if (spec->n_pairs > MEASURE_MAX_PAIRS)
		return ctx_error(ctx, -E2BIG, "measuring: %zu pairs are too many, at most %d",
				 spec->n_pairs, MEASURE_MAX_PAIRS);
	if (spec->n_pairs && (spec->depth < 1 || spec->depth > MEASURE_DEPTH))
		return ctx_error(ctx, -EINVAL, "measuring: a depth of %u is not between 1 and %d",
				 spec->depth, MEASURE_DEPTH);
	if (spec->by.is_on && spec->stack_depth)
		return ctx_error(ctx, -EINVAL, "measuring: groups by value exclude stacks");
	if (spec->n_histograms > MEASURE_MAX_HISTOGRAMS)
		return ctx_error(ctx, -E2BIG,
				 "measuring: histograms of %zu probes are too many, at most %d",
				 spec->n_histograms, MEASURE_MAX_HISTOGRAMS);
	return 0;
}

static void engine_close(struct engine *engine);

int engine_bpf_new(struct ocp_ctx *ctx, struct engine **out)
{
	const int n_cpus = possible_cpus();

	if (n_cpus < 0)
		return ctx_error(ctx, n_cpus, "/sys/devices/system/cpu/possible: %s",
				 strerror(-n_cpus));
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return ctx_no_memory(ctx);
	(*out)->ctx = ctx;
	(*out)->support.idle_prog_fd = -1;
	(*out)->n_cpus = (size_t)n_cpus;
	return 0;
}

int engine_bpf_open(struct ocp_ctx *ctx, const struct engine_spec *spec,
		    const struct engine_bpf_options *options, struct engine **out)
{
	static const struct engine_bpf_options defaults;
	struct engine *engine;
	int err = check_spec(ctx, spec);

	if (err)
		return err;
	err = engine_bpf_new(ctx, &engine);
	if (err)
		return err;
	options = options ? options : &defaults;
	engine->max_sites = spec->max_sites;
	engine->n_pairs = spec->n_pairs;
	engine->by = spec->by;
	engine->n_histograms = spec->n_histograms;
	engine->max_args = spec->max_args;
	engine->no_semaphore = calloc(spec->max_sites + 1, sizeof(*engine->no_semaphore));
	err = engine->no_semaphore ? bpf_support_probe(ctx, &engine->support) : ctx_no_memory(ctx);
	if (err)
		goto fail;
	engine->kernel_filters = engine->support.pid_filter_is_sound && !options->filter_in_bpf &&
				 !spec->many_processes && !spec->children;
	err = configure(engine, spec);
	if (!err)
		err = load_measure_object(engine, spec, options);
	if (!err)
		err = write_roles(engine, spec);
	if (err)
		goto fail;
	*out = engine;
	return 0;
fail:
	engine_close(engine);
	return err;
}

static int open_default(struct ocp_ctx *ctx, const struct engine_spec *spec, struct engine **out)
{
	return engine_bpf_open(ctx, spec, NULL, out);
}

/* ---- attach, detach ------------------------------------------------------------------------- */

static int add_tracepoint(struct engine *engine, int prog, const char *name)
{
	int err = engine_bpf_room_for_links(engine, 1);
	int fd = err ? err : link_tracepoint(prog, name);

	if (err)
		return err;
	if (fd < 0)
		return ctx_error(engine->ctx, fd, "measuring: tracepoint %s: %s", name,
				 strerror(-fd));
	engine->links[engine->n_links++] = (struct engine_link){ .fd = fd };
	return 0;
}

/*
 * Attach to those tracepoints that the settings of ENGINE need. All threads of the machine run into
 * them, so attach to no others.
 */
static int attach_tracepoints(struct engine *engine)
{
	int err = 0;

	if (engine->config.n_pairs || engine->sees_exits)
		err = add_tracepoint(engine, engine->object.thread_exit, "sched_process_exit");
	if (!err && engine->config.children)
		err = add_tracepoint(engine, engine->object.process_fork, "sched_process_fork");
	if (!err && engine->walker)
		err = add_tracepoint(engine, engine->object.process_exec, "sched_process_exec");
	return err;
}

static struct listed_process *find_listed(const struct engine *engine, pid_t pid)
{
	for (size_t i = 0; i < engine->n_listed; i++)
		if (engine->listed[i].pid == pid)
			return &engine->listed[i];
	return NULL;
}

static int list_process(struct engine *engine, pid_t pid)
{
	const struct pid_namespace ns = { engine->config.pidns_dev, engine->config.pidns_ino };
	struct listed_process *listed = find_listed(engine, pid);
	__u32 tgid, one = 1;
	int err = pid_namespace_id(engine->ctx, &ns, pid, &tgid);

	if (!err && bpf_map_update_elem(engine->object.tgids, &tgid, &one, 0))
		err = ctx_error(engine->ctx, -E2BIG, "process %d: too many processes", (int)pid);
	if (err)
		return err;
	if (!listed)
		listed = array_add(engine->listed, engine->n_listed);
	if (!listed) {
		bpf_map_delete_elem(engine->object.tgids, &tgid);
		return ctx_no_memory(engine->ctx);
	}
	*listed = (struct listed_process){ pid, tgid };
	return 0;
}

static void engine_unlist(struct engine *engine, pid_t pid)
{
	struct listed_process *listed = find_listed(engine, pid);
	__u32 id;

	if (!listed)
		return;
	id = listed->id;
	*listed = engine->listed[--engine->n_listed];
	/* If children are followed, the number may belong to a child by now. */
	if (!engine->config.children)
		bpf_map_delete_elem(engine->object.tgids, &id);
}

/* Write the arguments of FILE that are not in site_args yet. */
static int write_args(struct engine *engine, const struct engine_file *file)
{
	if (file->n_args > engine->max_args)
		return ctx_error(engine->ctx, -E2BIG,
				 "%s: no room for the arguments of its sites, %zu in all",
				 file->name, file->n_args);
	while (engine->n_args < file->n_args) {
		__u32 number = (__u32)engine->n_args;
		int err = bpf_map_update_elem(engine->object.site_args, &number,
					      &file->args[number], 0);

		if (err)
			return bpf_support_explain(engine->ctx, err, "writing the arguments");
		engine->n_args++;
	}
	return 0;
}

static bool ends_a_pair(const struct engine *engine, const struct engine_site *site)
{
	for (uint32_t i = 0; i < site->n_roles; i++)
		if (engine->is_stop[site->first_role + i])
			return true;
	return false;
}

/* Write to site_table what the program must do at the sites of FILE. */
static int write_site_table(struct engine *engine, const struct engine_file *file)
{
	struct measure_site *sites = calloc(file->n_sites + 1, sizeof(*sites));
	__u32 *numbers = calloc(file->n_sites + 1, sizeof(*numbers));
	__u32 n = (__u32)file->n_sites;
	int err = 0;

	if (!sites || !numbers) {
		err = ctx_no_memory(engine->ctx);
		goto out;
	}
	for (__u32 i = 0; i < n; i++) {
		const struct engine_site *site = &file->sites[i];

		numbers[i] = (__u32)file->first_site + i;
		sites[i] = (struct measure_site){
			.probe_index = site->probe_index,
			.flags = (file->check_exe ? MEASURE_CHECK_EXE : 0) |
				 (site->is_keyed ? MEASURE_KEYED : 0) |
				 (site->is_filtered ? MEASURE_FILTERED : 0) |
				 (site->is_printed ? MEASURE_PRINTED : 0) |
				 (site->has_histogram ? MEASURE_HISTOGRAM : 0) |
				 (site->is_grouped ? MEASURE_GROUPED : 0) |
				 (ends_a_pair(engine, site) ? MEASURE_STOPS : 0) |
				 (site->is_on_ocaml_stack ? MEASURE_OCAML_STACK : 0) |
				 (site->needs_confirmation ? MEASURE_IF_CONFIRMED : 0) |
				 (site->is_return ? MEASURE_RETURN : 0),
			.first_role = site->first_role,
			.n_roles = site->n_roles,
			.args = site->args,
			.histogram = site->histogram,
			.frame_depth = site->frame_depth,
			.condition = site->condition,
			.unless = site->unless,
		};
	}
	err = bpf_map_update_batch(engine->object.site_table, numbers, sites, &n, NULL);
	if (err)
		err = bpf_support_explain(engine->ctx, err, "writing the sites");
out:
	free(sites);
	free(numbers);
	return err;
}

static int attach_file(struct engine *engine, const struct engine_file *file)
{
	int err = 0;

	for (size_t i = 0; !err && engine->config.only_tgids && i < file->n_pids; i++)
		err = list_process(engine, file->pids[i]);
	if (err || !file->n_sites)
		return err;
	if (engine->config.n_pairs || engine->config.keyed_by != MEASURE_UNKEYED ||
	    engine->config.exe_ino || engine->config.args || engine->config.conditions ||
	    engine->walker) {
		err = engine->config.args ? write_args(engine, file) : 0;
		if (!err)
			err = write_site_table(engine, file);
	}
	return err ? err : engine_bpf_make_links(engine, file);
}

static int engine_attach(struct engine *engine, const struct engine_file *files, size_t n)
{
	size_t n_links = engine->n_links, n_sites = engine->n_sites;
	int err = engine->is_attached ? 0 : attach_tracepoints(engine);

	for (size_t i = 0; !err && i < n; i++) {
		const size_t end = files[i].first_site + files[i].n_sites;

		if (end > engine->max_sites)
			err = ctx_error(engine->ctx, -E2BIG, "%s: no room for %zu more sites",
					files[i].name, files[i].n_sites);
		else
			err = attach_file(engine, &files[i]);
		n_sites = end > n_sites ? end : n_sites;
	}
	if (err) {
		engine_bpf_close_links(engine, n_links);
		return err;
	}
	engine->n_sites = n_sites;
	engine->is_attached = true;
	engine_bpf_set_gate(engine, MEASURE_OPEN);
	return 0;
}

static int engine_detach(struct engine *engine)
{
	engine_bpf_set_gate(engine, MEASURE_CLOSED);
	engine_bpf_close_links(engine, 0);
	engine->is_attached = false;
	return 0;
}

static void engine_close(struct engine *engine)
{
	if (!engine)
		return;
	if (engine->is_pinned)
		engine_bpf_close_links(engine, 0); /* the pinned names keep the links */
	else
		engine_detach(engine);
	print_ring_close(engine->ring);
	engine_bpf_unmap_hits(engine);
	stack_walker_close(engine->walker);
	bpf_object_unload(&engine->object);
	if (engine->support.idle_prog_fd >= 0)
		close(engine->support.idle_prog_fd);
	free(engine->listed);
	free(engine->links);
	engine_bpf_unmap_serials(engine);
	free(engine->no_semaphore);
	free(engine->is_stop);
	free(engine);
}

static int engine_print(struct engine *engine, bool all, engine_print_fn fn, void *data)
{
	int err = engine->ring ? print_ring_take(engine->ring, all, fn, data) : 0;

	return err ? ctx_error(engine->ctx, err, "measuring: the ring buffer: %s", strerror(-err))
		   : 0;
}

static int engine_check(struct ocp_ctx *ctx)
{
	struct bpf_support support;
	int err = bpf_support_probe(ctx, &support);

	if (!err)
		close(support.idle_prog_fd);
	return err;
}

const struct engine_ops engine_bpf = {
	.name = "bpf",
	.check = engine_check,
	.open = open_default,
	.attach = engine_attach,
	.switch_sites = engine_bpf_switch,
	.give_up = engine_bpf_give_up,
	.unlist = engine_unlist,
	.read = engine_bpf_read,
	.walk = engine_bpf_walk,
	.refresh_stacks = engine_bpf_refresh_stacks,
	.walker = engine_bpf_walker,
	.read_stacks = engine_bpf_read_stacks,
	.forget = engine_bpf_forget,
	.print = engine_print,
	.detach = engine_detach,
	.close = engine_close,
	.keep = engine_bpf_pin,
	.open_pinned = engine_bpf_open_pinned,
};

// SPDX-License-Identifier: MIT
/*
 * Measures with the kernel's uprobes: an int3 on the nop of each site, a BPF program that runs at
 * each hit (bpf/measure.bpf.c), and one or a few uprobe_multi links per file.
 *
 * Which hits count. If a file is measured in one process, the kernel filters by this process.
 * (Kernels before Linux 6.10 filter by a thread instead; bpf_support.c tests this.) On such
 * kernels, and if a file is measured in several processes, the uprobes and raised semaphores are in
 * every process that maps the file, and the BPF program looks up the process in `tgids`. If our pid
 * namespace is the initial one, the BPF program uses the ids of the initial namespace. Otherwise
 * the BPF program uses the ids of the measured process's namespace, because the kernel's helper
 * gives the ids of a task only in the task's own namespace. There is an exception: if all processes
 * of an executable are measured, and only sums over these processes are reported, the BPF program
 * always uses the ids of the initial namespace, because the processes may be in containers with
 * their own pid namespaces.
 *
 * Reused pids. The kernel's filter is for a process, but `tgids` contains process ids, which the
 * kernel reuses. If the kernel has BTF and uprobe_multi, a BPF program removes a process from
 * `tgids` when the process exits, before its id is free, so that no other process is counted by
 * mistake, even if the engine is pinned. On other kernels, the tool removes a process when it
 * notices its end (unlist). Until then, another process that gets the id and runs the same file is
 * counted: for a second if the caller refreshes every second, and forever if the engine is pinned.
 * A process that ended between open and attach is removed right after the attach, but not if
 * children are followed; then a later process that gets the id is counted until it ends.
 *
 * Exactness. A gate, which is a variable of the BPF programs, makes all sites start and stop
 * counting at one moment: it is opened after all sites have been attached, and closed before the
 * first site is detached. Closing a link returns after the kernel has removed the uprobes and
 * waited for running handlers, so a read after detach misses nothing. Sites can be switched off and
 * on in between (see "links" below). A slot of the map `hits` is written with atomic adds and read
 * by one 64-bit load.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "kernel/kernel_file.h"
#include "kernel/link.h"
#include "kernel/maps.h"
#include "kernel/pid_namespace.h"
#include "kernel/uprobe_link.h"
#include "measure/engine/engine_bpf.h"
#include "program/program.h"
#include "unwind/stack_walker.h"

/* ---- links ---------------------------------------------------------------------------------- */

/*
 * At first a file has one link for all its sites, or two if some sites need return probes. One link
 * per site or probe would be too slow: closing a link takes the kernel about 60 ms (an RCU grace
 * period), however many sites the link has. But a link cannot be changed. So:
 *
 *   - Sites that are switched on get a new link.
 *   - A link is closed when all of its sites are switched off.
 *   - If only some sites of a link are switched off, or if a file would have more than
 *     MAX_LINKS_A_FILE links, new links replace all links of the file. For the sites that stay
 *     on, this is a handover (bpf/measure.h): no hit is lost or counted twice. Sites that are
 *     switched off may lose some hits meanwhile.
 *
 * Another process that has a descriptor of a closed link keeps the link alive, with its uprobes and
 * raised semaphores. Hits by way of such a link are not counted, because the BPF program looks up
 * in `serials` which link is to count a site.
 *
 * There is only one handover at a time, for the sites of one file. The gate has the range of the
 * numbers of these sites (first, end). Closing the last descriptor of a link waits for running
 * handlers. So when the handover ends, no handler of an old link is running, unless another process
 * keeps the link alive.
 *
 * With perf events there is one link per site, so links are simply opened and closed.
 */

enum { MAX_LINKS_A_FILE = 8 };

static void engine_bpf_set_gate(struct engine *engine, uint32_t open)
{
	if (engine->object.gate)
		__atomic_store_n(&engine->object.gate->open, open, __ATOMIC_SEQ_CST);
}

int engine_bpf_room_for_links(struct engine *engine, size_t n)
{
	size_t room = engine->n_links + n;
	struct engine_link *links;

	if (room <= engine->room_for_links)
		return 0;
	room += room / 2;
	links = realloc(engine->links, room * sizeof(*links));
	if (!links)
		return ctx_no_memory(engine->ctx);
	engine->links = links;
	engine->room_for_links = room;
	return 0;
}

static void engine_bpf_close_links(struct engine *engine, size_t n)
{
	const size_t n_closed = engine->n_links > n ? engine->n_links - n : 0;
	int *fds = calloc(n_closed + 1, sizeof(*fds));

	for (size_t i = 0; i < n_closed; i++) {
		const int fd = engine->links[--engine->n_links].fd;

		if (fds)
			fds[i] = fd;
		else
			link_close(fd);
	}
	if (fds)
		links_close(fds, n_closed);
	free(fds);
}

static uint32_t next_serial(struct engine *engine)
{
	if (engine->last_serial < MEASURE_FIRST_SERIAL)
		engine->last_serial = MEASURE_FIRST_SERIAL - 1;
	return ++engine->last_serial;
}

static size_t serials_bytes(const struct engine *engine)
{
	return (engine->max_sites ? engine->max_sites : 1) * sizeof(*engine->serials);
}

static int engine_bpf_map_serials(struct engine *engine)
{
	void *serials = mmap(NULL, serials_bytes(engine), PROT_READ | PROT_WRITE, MAP_SHARED,
			     engine->object.serials, 0);

	if (serials == MAP_FAILED)
		return ctx_error(engine->ctx, -errno, "measuring: mapping the serials: %s",
				 strerror(errno));
	engine->serials = serials;
	return 0;
}

static void engine_bpf_unmap_serials(struct engine *engine)
{
	if (engine->serials)
		munmap((void *)engine->serials, serials_bytes(engine));
	engine->serials = NULL;
}

static void close_link(struct engine *engine, size_t number)
{
	const int fd = engine->links[number].fd;

	memmove(engine->links + number, engine->links + number + 1,
		(--engine->n_links - number) * sizeof(*engine->links));
	link_close(fd);
}

static bool is_within(const struct engine_link *link, size_t first, size_t n)
{
	return link->n_sites && link->first >= first && link->first < first + n;
}

static bool is_of_file(const struct engine_link *link, const struct engine_file *file)
{
	return is_within(link, file->first_site, file->n_sites);
}

/* ---- making links --------------------------------------------------------------------------- */

/* Return the number of UPROBE's site, which is the low half of the cookie: see measure_cookie(). */
static uint32_t site_of(const struct uprobe *uprobe)
{
	return (uint32_t)uprobe->cookie;
}

/*
 * Append the links FDS, which were made from SPEC for FILE, to engine->links. A perf event is a
 * link with one site; otherwise there is one link, which has all sites of SPEC.
 */
static void add_links(struct engine *engine, const struct engine_file *file, uint32_t serial,
		      const struct uprobe_link_spec *spec, const int *fds)
{
	const bool uses_perf = engine->uses_perf;

	for (size_t i = 0; i < (uses_perf ? spec->n : 1); i++)
		engine->links[engine->n_links++] = (struct engine_link){
			.fd = fds[i],
			.serial = serial,
			.first = uses_perf ? site_of(&spec->uprobes[i]) : file->first_site,
			.n_sites = uses_perf ? 1 : spec->n,
			.is_return = spec->is_return,
		};
}

/* Make links for SPEC, whose uprobes are at sites of FILE. */
static int make_links_of(struct engine *engine, const struct engine_file *file, uint32_t serial,
			 const struct uprobe_link_spec *spec)
{
	int *fds = calloc(spec->n + 1, sizeof(*fds));
	int err = fds ? engine_bpf_room_for_links(engine, engine->uses_perf ? spec->n : 1)
		      : ctx_no_memory(engine->ctx);

	if (!err)
		err = engine->uses_perf ? perf_links_create(engine->ctx, spec, fds)
					: uprobe_link_create(engine->ctx, spec, fds);
	if (!err)
		add_links(engine, file, serial, spec, fds);
	free(fds);
	return err;
}

/*
 * Return true if SITE is the entry of a function and a hit of SITE is the return from this
 * function.
 */
static bool is_return(const struct engine_site *site)
{
	return site->site && site->site->is_return;
}

/*
 * Put WANTED sites of FILE into SPEC: if spec->is_return, those that need a return probe, otherwise
 * those that do not need one.
 */
static void list_uprobes(const struct engine *engine, const struct engine_file *file,
			 const bool *wanted, uint32_t serial, struct uprobe_link_spec *spec)
{
	spec->n = 0;
	for (size_t i = 0; i < file->n_sites; i++) {
		const struct engine_site *site = &file->sites[i];
		const size_t number = file->first_site + i;

		if (wanted[i] && is_return(site) == spec->is_return)
			spec->uprobes[spec->n++] = (struct uprobe){
				.off = site->nop_off,
				.ref_ctr_off = site->ref_ctr_off,
				.cookie = measure_cookie(serial, (__u32)number),
				.no_semaphore = engine->no_semaphore[number],
			};
	}
}

/*
 * Make links for the WANTED sites of FILE: one for all sites that need no return probe, one for
 * those that do.
 */
static int make_links(struct engine *engine, const struct engine_file *file, const bool *wanted,
		      uint32_t serial)
{
	const bool one = engine->kernel_filters && file->n_pids == 1;
	struct uprobe_link_spec spec = {
		.prog_fd = engine->object.hit,
		.idle_prog_fd = engine->support.idle_prog_fd,
		.path = file->path,
		.name = file->name,
		.uprobes = calloc(file->n_sites + 1, sizeof(*spec.uprobes)),
		.pid = one ? file->pids[0] : 0,
	};
	int err = spec.uprobes ? 0 : ctx_no_memory(engine->ctx);

	for (int kind = 0; !err && kind < 2; kind++) {
		spec.is_return = kind != 0;
		list_uprobes(engine, file, wanted, serial, &spec);
		if (spec.n)
			err = make_links_of(engine, file, serial, &spec);
		for (size_t i = 0; i < spec.n; i++)
			engine->no_semaphore[site_of(&spec.uprobes[i])] =
				spec.uprobes[i].no_semaphore;
	}
	free(spec.uprobes);
	return err;
}

/* From now on, let the links with this SERIAL count the WANTED sites of FILE. */
static void let_count(struct engine *engine, const struct engine_file *file, const bool *wanted,
		      uint32_t serial)
{
	for (size_t i = 0; i < file->n_sites; i++)
		if (wanted[i])
			engine->serials[file->first_site + i] = serial;
}

static int engine_bpf_make_links(struct engine *engine, const struct engine_file *file)
{
	const size_t first = file->first_site;
	const uint32_t serial = next_serial(engine);
	bool *wanted = calloc(file->n_sites + 1, sizeof(*wanted));
	int err;

	if (!wanted)
		return ctx_no_memory(engine->ctx);
	for (size_t i = 0; i < file->n_sites; i++) {
		wanted[i] = !file->sites[i].is_off;
		engine->serials[first + i] = 0;
		engine->no_semaphore[first + i] = false;
	}
	err = make_links(engine, file, wanted, serial);
	if (!err)
		let_count(engine, file, wanted, serial);
	free(wanted);
	return err;
}

/* ---- the handover --------------------------------------------------------------------------- */

static int clear_marks(struct engine *engine)
{
	const size_t bytes = MEASURE_MARK_WORDS * sizeof(__u64);
	void *marks =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, engine->object.marks, 0);

	if (marks == MAP_FAILED)
		return ctx_error(engine->ctx, -errno, "measuring: mapping the marks: %s",
				 strerror(errno));
	memset(marks, 0, bytes);
	munmap(marks, bytes);
	return 0;
}

/* Replace all links of FILE by new links for the WANTED sites. */
static int hand_over(struct engine *engine, const struct engine_file *file, const bool *wanted)
{
	const size_t first = file->first_site;
	const uint32_t serial = next_serial(engine);
	int err;

	/* No program sets marks before the handover begins. */
	err = clear_marks(engine);
	if (err)
		return err;
	engine->object.gate->first = (__u32)first;
	engine->object.gate->end = (__u32)(first + file->n_sites);
	engine_bpf_set_gate(engine, serial);
	err = make_links(engine, file, wanted, serial);
	for (size_t i = engine->n_links; !err && i-- > 0;)
		if (is_of_file(&engine->links[i], file) && engine->links[i].serial != serial)
			close_link(engine, i);
	if (!err)
		let_count(engine, file, wanted, serial);
	engine_bpf_set_gate(engine, MEASURE_OPEN);
	return err;
}

/* ---- switching ------------------------------------------------------------------------------ */

/* The sites of a file that are switched, and the effect on its links. */
struct link_change {
	/* by site: `added`: will be switched on; `all`: will be on after the change */
	bool *added, *all;
	size_t n_added, n_all;
	size_t *left; /* by link: how many of its sites stay on */
};

static void free_change(struct link_change *change)
{
	free(change->added);
	free(change->all);
	free(change->left);
}

static ptrdiff_t link_of(const struct engine *engine, size_t site, bool is_return)
{
	for (size_t i = 0; engine->serials[site] && i < engine->n_links; i++) {
		const struct engine_link *link = &engine->links[i];

		if (link->serial == engine->serials[site] && link->is_return == is_return &&
		    (!engine->uses_perf || link->first == site))
			return (ptrdiff_t)i;
	}
	return -1;
}

/*
 * Find out which sites of FILE must be switched, and how this affects the links. The caller frees
 * CHANGE, also on failure.
 */
static int find_change(struct engine *engine, const struct engine_file *file,
		       struct link_change *change)
{
	const size_t first = file->first_site;

	*change = (struct link_change){
		.added = calloc(file->n_sites + 1, sizeof(*change->added)),
		.all = calloc(file->n_sites + 1, sizeof(*change->all)),
		.left = calloc(engine->n_links + 1, sizeof(*change->left)),
	};
	if (!change->added || !change->all || !change->left)
		return ctx_no_memory(engine->ctx);
	for (size_t i = 0; i < file->n_sites; i++) {
		const bool is_off = file->sites[i].is_off;
		const ptrdiff_t link =
			is_off ? -1 : link_of(engine, first + i, is_return(&file->sites[i]));

		change->all[i] = !is_off;
		change->added[i] = !is_off && link < 0;
		/* Try to use the semaphore again: the tracer that prevented its use may be gone. */
		if (change->added[i])
			engine->no_semaphore[first + i] = false;
		change->n_all += !is_off;
		change->n_added += change->added[i];
		if (link >= 0)
			change->left[link]++;
	}
	return 0;
}

/*
 * Return true if CHANGE switches off some, but not all, sites of a link, or if FILE would have too
 * many links.
 */
static bool needs_handover(const struct engine *engine, const struct engine_file *file,
			   const struct link_change *change)
{
	size_t n_links = change->n_added != 0;

	if (engine->uses_perf || !change->n_all)
		return false;
	for (size_t i = 0; i < engine->n_links; i++) {
		const struct engine_link *link = &engine->links[i];

		if (!is_of_file(link, file) || !change->left[i])
			continue;
		if (change->left[i] < link->n_sites)
			return true;
		n_links++;
	}
	return n_links > MAX_LINKS_A_FILE;
}

/* Make links for the added sites, and close the links without sites. */
static int add_and_close(struct engine *engine, const struct engine_file *file,
			 const struct link_change *change)
{
	const size_t n_before = engine->n_links;
	const uint32_t serial = next_serial(engine);
	int err = make_links(engine, file, change->added, serial);

	if (!err)
		let_count(engine, file, change->added, serial);
	for (size_t i = n_before; !err && i-- > 0;)
		if (is_of_file(&engine->links[i], file) && !change->left[i])
			close_link(engine, i);
	return err;
}

static int engine_bpf_switch(struct engine *engine, const struct engine_file *file)
{
	struct link_change change;
	int err = find_change(engine, file, &change);

	if (!err && needs_handover(engine, file, &change))
		err = hand_over(engine, file, change.all);
	else if (!err)
		err = add_and_close(engine, file, &change);
	for (size_t i = 0; !err && i < file->n_sites; i++)
		if (!change.all[i])
			engine->serials[file->first_site + i] = 0;
	free_change(&change);
	return err;
}

static void engine_bpf_give_up(struct engine *engine, size_t first, size_t n, uint64_t *hits)
{
	for (size_t i = engine->n_links; i-- > 0;)
		if (is_within(&engine->links[i], first, n))
			close_link(engine, i);
	for (size_t i = first; i < first + n && i < engine->max_sites; i++)
		engine->serials[i] = 0;
	if (hits)
		engine_bpf_take_hits(engine, first, n, hits);
}

enum {
	MAX_FRAME_USERS = 65536, /* maximum number of threads that are in a timed call */
	/*
	 * Maximum number of processes whose mappings user space supplies. For walks in other
	 * processes, BPF programs search the kernel's tree of mappings.
	 */
	WALKED_PROCESSES = 1024,
};

#define KERNEL_BTF "/sys/kernel/btf/vmlinux" /* measure_full needs it */

/* ---- open ----------------------------------------------------------------------------------- */

/* Return true if the programs write records to the ring buffer. */
static bool makes_records(const struct engine_spec *spec)
{
	return spec->request.printed.n || spec->request.has_slower;
}

/*
 * Return true if the BPF programs report or look up ids of processes or threads, so that it matters
 * to which pid namespace these ids belong. This does not matter for pairs, which only need unique
 * thread ids.
 */
static bool needs_own_ids(const struct engine_spec *spec, const struct measure_config *config)
{
	return !spec->exe || config->keyed_by != MEASURE_UNKEYED || makes_records(spec) ||
	       spec->request.children || measure_request_walks(&spec->request);
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
	/*
	 * A tool that is not in the initial pid namespace does not know the processes' ids of that
	 * namespace.
	 */
	config->counts_processes = spec->counts_processes && (is_chosen || !ns.ino);
	if (err || !is_chosen)
		return err;
	config->pidns_dev = ns.dev;
	config->pidns_ino = ns.ino;
	return err;
}

/* Return the value of measure_config.matching for the roles of SPEC. */
static __u32 matching_of(const struct engine_spec *spec)
{
	__u32 matching = 0;

	for (size_t i = 0; spec->request.n_pairs && i < spec->n_roles; i++) {
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
	return spec->pid == getpid() && !spec->many_processes && !spec->request.children &&
	       !spec->exe;
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
		.only_tgids = !spec->exe && (spec->many_processes || spec->request.children ||
					     (spec->pid && !engine->kernel_filters)),
		.keyed_by = engine_bpf_keyed_by(spec->request.split),
		.n_pairs = (__u32)spec->request.n_pairs,
		.depth = spec->request.depth,
		.matching = matching_of(spec),
		.children = spec->request.children,
		.args = reads_args(spec),
		.filters = spec->filter != NULL,
		.hist_arg = spec->n_histograms ? spec->hist_arg : MEASURE_NO_ARG,
		.prints = spec->request.printed.n != 0,
		.print_limit = spec->request.print_limit,
		.hits_stride = (__u32)engine_bpf_hits_stride(spec->max_sites),
		.frames = spec->max_frames != 0,
		.conditions = spec->has_conditions,
		.domain_id = spec->domains.id,
		.domain_tls = spec->domains.tls,
		.stack_depth = spec->request.stack_depth,
		.outermost = spec->request.is_outermost,
		.slower_ns = spec->request.slower_ns,
		.by_arg = spec->by.arg,
		.by_max_times =
			spec->by.is_on && spec->request.n_pairs ? (__u32)spec->by.max_times : 0,
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
	else if (spec->exe || spec->request.children || engine->config.args ||
		 engine->config.checks_access ||
		 ((engine->config.only_tgids || spec->domains.max) &&
		  access(KERNEL_BTF, F_OK) == 0))
		*variant = BPF_FULL;
	if (spec->request.has_slower && !needs_perf)
		*variant = BPF_SLOWER;
	if (measure_request_walks(&spec->request) && !needs_perf)
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
	if (needs_perf && (spec->exe || spec->request.children))
		return ctx_error(engine->ctx, -EOPNOTSUPP,
				 "measuring: children and future processes need uprobe_multi "
				 "links (Linux 6.6)");
	if (needs_perf && measure_request_walks(&spec->request))
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
	const bool walks = measure_request_walks(&spec->request);
	const struct bpf_object_setup setup = {
		.config = engine->config,
		.filter = spec->filter,
		.sizes = {
			.hits = engine->config.hits_stride * (uint32_t)engine->n_cpus,
			.sites = (uint32_t)spec->max_sites,
			.roles = (uint32_t)spec->n_roles,
			.pairs = (uint32_t)spec->request.n_pairs,
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
			.walked_processes = walks ? WALKED_PROCESSES : 0,
			.walks = walks ? (uint32_t)engine->n_cpus * WALK_SLOTS : 0,
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
	if (!err && walks)
		err = engine_bpf_open_stacks(engine, spec->exe);
	if (err || !makes_records(spec))
		return err;
	err = print_ring_open(engine->object.prints, spec->print_bytes, spec->request.stack_depth,
			      &engine->ring);
	return err ? bpf_support_explain(engine->ctx, err, "mapping the ring buffer") : 0;
}

static int write_roles(struct engine *engine, const struct engine_spec *spec)
{
	engine->is_stop = calloc(spec->n_roles + 1, sizeof(*engine->is_stop));
	engine->role_pairs = calloc(spec->n_roles + 1, sizeof(*engine->role_pairs));
	engine->if_confirmed = calloc(spec->request.n_pairs + 1, sizeof(*engine->if_confirmed));
	if (!engine->is_stop || !engine->role_pairs || !engine->if_confirmed)
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
		engine->role_pairs[i] = asked->pair;
		if (err)
			return bpf_support_explain(engine->ctx, err, "writing the pairs");
	}
	return 0;
}

static int check_spec(struct ocp_ctx *ctx, const struct engine_spec *spec)
{
	if (spec->max_sites > UINT32_MAX || spec->max_keys > UINT32_MAX)
		return ctx_error(ctx, -E2BIG, "measuring: %zu sites are too many", spec->max_sites);
	if (spec->request.n_pairs > MEASURE_MAX_PAIRS)
		return ctx_error(ctx, -E2BIG, "measuring: %zu pairs are too many, at most %d",
				 spec->request.n_pairs, MEASURE_MAX_PAIRS);
	if (spec->request.n_pairs &&
	    (spec->request.depth < 1 || spec->request.depth > MEASURE_DEPTH))
		return ctx_error(ctx, -EINVAL, "measuring: a depth of %u is not between 1 and %d",
				 spec->request.depth, MEASURE_DEPTH);
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
	engine->n_pairs = spec->request.n_pairs;
	engine->by = spec->by;
	engine->n_histograms = spec->n_histograms;
	engine->max_args = spec->max_args;
	engine->no_semaphore = calloc(spec->max_sites + 1, sizeof(*engine->no_semaphore));
	err = engine->no_semaphore ? bpf_support_probe(ctx, &engine->support) : ctx_no_memory(ctx);
	if (err)
		goto fail;
	engine->kernel_filters = engine->support.pid_filter_is_sound && !options->filter_in_bpf &&
				 !spec->many_processes && !spec->request.children;
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
 * Attach to the tracepoints that ENGINE needs, and to no others, because every thread of the
 * machine then runs our program at these tracepoints.
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
	/*
	 * If children are followed, the id may now belong to a child, which must stay in `tgids`.
	 */
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

/* Note that the calls that end at SITE are timed only if they were confirmed. */
static void note_confirmed(struct engine *engine, const struct engine_site *site)
{
	for (uint32_t i = 0; i < site->n_roles; i++) {
		const uint32_t pair = engine->role_pairs[site->first_role + i];

		if (engine->is_stop[site->first_role + i] && pair < engine->n_pairs)
			engine->if_confirmed[pair] = true;
	}
}

/* Write to site_table what the program must do at the sites of FILE. */
static int write_site_table(struct engine *engine, const struct engine_file *file)
{
	static const struct site no_site;
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
		const struct site *code = site->site ? site->site : &no_site;

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
				 (code->is_on_ocaml_stack ? MEASURE_OCAML_STACK : 0) |
				 (code->events & SITE_IF_CONFIRMED ? MEASURE_IF_CONFIRMED : 0) |
				 (code->is_return ? MEASURE_RETURN : 0),
			.first_role = site->first_role,
			.n_roles = site->n_roles,
			.args = site->args,
			.histogram = site->histogram,
			.frame_depth = code->frame_depth,
			.condition = code->condition,
			.unless = code->unless,
		};
		if (code->events & SITE_IF_CONFIRMED)
			note_confirmed(engine, site);
		if (engine->config.outermost && code->function_bytes) {
			sites[i].function_bytes = (__u32)code->function_bytes;
			sites[i].function_before = (__u32)(code->va - code->function_va);
		}
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
		/* because of their names in bpffs, the links continue to exist */
		engine_bpf_close_links(engine, 0);
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
	free(engine->role_pairs);
	free(engine->if_confirmed);
	free(engine);
}

static int engine_print(struct engine *engine, bool all, engine_print_fn fn, void *data)
{
	int err = engine->ring ? print_ring_take(engine->ring, all, fn, data) : 0;

	return err ? ctx_error(engine->ctx, err, "measuring: the ring buffer: %s", strerror(-err))
		   : 0;
}

static int64_t engine_printed_until(const struct engine *engine)
{
	return engine->ring ? print_ring_until(engine->ring) : INT64_MAX;
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
	.printed_until = engine_printed_until,
	.read_open = engine_bpf_read_open,
	.detach = engine_detach,
	.close = engine_close,
	.keep = engine_bpf_pin,
	.open_pinned = engine_bpf_open_pinned,
};

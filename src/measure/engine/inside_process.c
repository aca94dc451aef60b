// SPDX-License-Identifier: MIT
#include "measure/engine/inside_process.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/plural.h"
#include "base/populate.h"
#include "code/window.h"
#include "measure/engine/file_mappings.h"
#include "measure/engine/inside_filters.h"
#include "measure/engine/shared_windows.h"
#include "look/find.h"
#include "look/maps.h"
#include "look/memory_copies.h"
#include "look/proc_file.h"
#include "program/program.h"

enum {
	MAX_THREADS = 1024,    /* threads that can time pairs at the same time */
	OCAML_COUNTER_OFF = 2, /* offset of the half of a semaphore that OCaml reads */
	NO_PROBE = UINT32_MAX,
	/*
	 * Maximum number of searches for forked children: each search may find children that were
	 * forked during the previous search.
	 */
	MAX_CHILD_ROUNDS = 100,
};

/*
 * One of the processes that the engine measures: the addresses of its sites, and the counters in
 * its memory. Children that the process forks use the same counters.
 */
struct inside_process {
	struct ocp_ctx *ctx;
	struct inside *inside;
	struct inside_number *numbers; /* the sites of the engine that the process counts */
	size_t n_numbers;
	/*
	 * For each element of `numbers`: the probe to whose row its hits are added, or NO_PROBE.
	 * NULL: hits are not reported by process.
	 */
	uint32_t *probes;
	uint32_t n_probes; /* all numbers in `probes` are below this */
	char comm[16];
	size_t n_sites, n_pairs;
	/*
	 * The groups of the process: of the times of each pair if n_time_groups is n_pairs, and
	 * none if it is 0; then n_groups of hits, each with its probe in `groups`.
	 */
	uint32_t *groups;
	uint32_t n_groups, n_time_groups;
	/* reads the events of the process; NULL: it writes none, and counts its pairs itself */
	struct event_matcher *events;
	pid_t pid;
	uint64_t start_time;
	struct stat exe;
	char base[FIND_NAME_BYTES + 1]; /* name of the process's executable, without the path */
	bool is_detached, has_warned;
	bool is_found; /* an earlier tool has attached the process */
};

/* The sites of a process to attach to, and their roles. */
struct sites_to_count {
	const struct inside_plan *plan;
	struct inside_site *sites;
	struct inside_role *roles;
	size_t n_roles;
	struct inside_filters filters;
	struct inside_event *events; /* as many as sites; NULL: the sites write no events */
	/* for each probe: the number of its group plus 1; 0: none yet; NULL: no groups */
	uint32_t *group_of;
	uint32_t event_args;	      /* the largest number of arguments of an event */
	struct memory *memory;	      /* of the process */
	struct memory_copies windows; /* the present bytes of the windows of a file */
	/*
	 * functions and lines that are left out, because a window is not in memory as in the file
	 */
	size_t n_changed;
	bool has_shared;    /* lines are counted: sites can be the same window */
	size_t n_c_entries; /* windows at the entries of functions of C */
};

/* ---- the sites ------------------------------------------------------------------------------ */

void inside_process_close(struct inside_process *process)
{
	if (!process)
		return;
	event_matcher_free(process->events);
	inside_close(process->inside);
	free(process->numbers);
	free(process->probes);
	free(process->groups);
	free(process);
}

static void note_probe(struct inside_process *process, const struct engine_site *site)
{
	process->probes[process->n_sites] = site->is_keyed ? site->probe_index : NO_PROBE;
	if (site->is_keyed && site->probe_index >= process->n_probes)
		process->n_probes = site->probe_index + 1;
}

/*
 * Set *PLACE to the key of ROLE at SITE of FILE: the argument, or the frame of the call. Return
 * false if it is at no place that the engine can read.
 */
static bool find_key(const struct engine_file *file, const struct engine_site *site,
		     const struct engine_role *role, struct inside_place *place)
{
	if (!role->is_frame)
		return inside_place_of(&file->args[site->args].args[role->key_arg], place);
	if (!site->site)
		return false;
	*place = (struct inside_place){ .kind = site->site->is_on_ocaml_stack ? INSIDE_FIBER_FRAME
									      : INSIDE_FRAME,
					.number = site->site->frame_depth };
	return true;
}

/* Report that a site of FILE has a key that cannot be read. Return -ENOTSUP. */
static int no_place_of_key(const struct inside_process *process, const struct engine_file *file)
{
	return ctx_error(process->ctx, -ENOTSUP,
			 "pid %d: a site of %s has the key neither in a register nor on the "
			 "stack, where the engine `inside` reads it",
			 (int)process->pid, file->name);
}

/* Let site number I of FILE write events, if its hits are of any use. */
static int add_event(const struct inside_process *process, const struct engine_file *file, size_t i,
		     struct sites_to_count *sites)
{
	const struct engine_site *site = &file->sites[i];
	struct inside_event *event = &sites->events[process->n_sites - 1];

	if (!event_points_make(site, &sites->plan->roles[site->first_role],
			       file->args ? &file->args[site->args] : NULL, file->first_site + i,
			       sites->plan->max_sites, sites->plan->points, event))
		return no_place_of_key(process, file);
	sites->sites[process->n_sites - 1].n_roles = site->n_roles || site->is_printed;
	if (site->n_roles || site->is_printed)
		sites->roles[sites->n_roles++] = (struct inside_role){ .event = event };
	if (event->n_args > sites->event_args)
		sites->event_args = event->n_args;
	return 0;
}

/* Let ROLE, which SITE of FILE has, group the times of its pair. Return false if it cannot. */
static bool group_times(const struct engine_file *file, const struct engine_site *site,
			const struct inside_plan *plan, struct inside_role *role)
{
	role->is_grouped = true;
	role->group = role->pair;
	return role->is_stop ||
	       inside_place_of(&file->args[site->args].args[plan->by.arg], &role->value);
}

/* Add the roles of SITE to SITES, each with the places of its key and value. */
static int add_roles(struct inside_process *process, const struct engine_file *file,
		     const struct engine_site *site, struct sites_to_count *sites)
{
	struct inside_role *roles = sites->roles + sites->n_roles;

	sites->n_roles += site->n_roles;
	for (uint32_t i = 0; i < site->n_roles; i++) {
		const struct engine_role *role = &sites->plan->roles[site->first_role + i];

		roles[i] = (struct inside_role){ .pair = role->pair,
						 .is_stop = role->is_stop,
						 .is_keyed = role->is_keyed || role->is_frame };
		if (roles[i].is_keyed && !find_key(file, site, role, &roles[i].key))
			return no_place_of_key(process, file);
		if (process->n_time_groups && !group_times(file, site, sites->plan, &roles[i]))
			return no_place_of_key(process, file);
		if (!roles[i].is_keyed && site->site && site->site->window &&
		    !site->site->keeps_r11) {
			roles[i].is_framed = true;
			roles[i].key =
				(struct inside_place){ INSIDE_FRAME, site->site->frame_depth };
		}
	}
	return 0;
}

/* Let SITE of FILE count in the group of its probe. */
static int add_group(struct inside_process *process, const struct engine_file *file,
		     const struct engine_site *site, struct sites_to_count *sites)
{
	struct inside_role *role = &sites->roles[sites->n_roles];
	uint32_t *group = &sites->group_of[site->probe_index];

	*role = (struct inside_role){ .has_group = true };
	if (!inside_place_of(&file->args[site->args].args[sites->plan->by.arg], &role->key))
		return no_place_of_key(process, file);
	if (!*group) {
		process->groups[process->n_groups] = site->probe_index;
		*group = ++process->n_groups;
	}
	role->group = process->n_time_groups + *group - 1;
	sites->n_roles++;
	sites->sites[process->n_sites - 1].n_roles++;
	return 0;
}

/* Return true if the window SITE, at ADDR, is not in memory as in the file. */
static bool has_changed(const struct sites_to_count *sites, uint64_t addr, const struct site *site)
{
	uint8_t now[WINDOW_MAX_BYTES];

	return site->n_window > sizeof(now) ||
	       !memory_copies_get(sites->memory, &sites->windows, addr, now, site->n_window) ||
	       memcmp(now, site->window, site->n_window) != 0;
}

/* Set *CHANGED, and add nothing, if site I is a window that is not in memory as in the file. */
static int add_counted_site(struct inside_process *process, const struct file_mappings *mapped,
			    const struct engine_file *file, size_t i, struct sites_to_count *sites,
			    bool *changed)
{
	const struct engine_site *site = &file->sites[i];
	const uint8_t *window = site->site ? site->site->window : NULL;
	const struct inside_filter *filter = NULL;
	uint64_t addr = 0, semaphore = 0;
	int err;
	const size_t n = file_mappings_address(mapped, site->nop_off, true, &addr);
	const bool has_semaphore =
		site->ref_ctr_off &&
		file_mappings_address(mapped, site->ref_ctr_off, false, &semaphore) == 1;

	if (n != 1)
		return ctx_error(
			process->ctx, -ENOTSUP,
			n ? "pid %d: maps the code of %s twice, and cannot be counted "
			    "inside"
			  : "pid %d: has no mapping of a site of %s, and cannot be counted "
			    "inside",
			(int)mapped->pid, file->name);
	sites->has_shared |= window && site->site->is_shared;
	*changed = window && has_changed(sites, addr, site->site);
	if (*changed)
		return 0;
	if (site->is_filtered) {
		filter = inside_filters_get(&sites->filters, site->args, file->n_args,
					    &file->args[site->args]);
		if (!filter)
			return ctx_error(process->ctx, -ENOTSUP,
					 "pid %d: a site of %s has no filter that the engine "
					 "`inside` can evaluate",
					 (int)mapped->pid, file->name);
	}
	sites->sites[process->n_sites] = (struct inside_site){
		.addr = addr,
		.semaphore = has_semaphore ? semaphore + OCAML_COUNTER_OFF : 0,
		.roles = sites->roles + sites->n_roles,
		.n_roles = site->n_roles,
		.filter = filter,
		.window = window,
		.n_window = window ? site->site->n_window : 0,
		.n_before = window ? site->site->n_before : 0,
		.keeps_r11 = window && site->site->keeps_r11,
	};
	sites->n_c_entries += window && site->site->is_c_entry;
	if (process->probes)
		note_probe(process, site);
	process->numbers[process->n_sites] = (struct inside_number){
		.number = (uint32_t)(file->first_site + i),
		.site = (uint32_t)process->n_sites,
	};
	process->n_sites++;
	if (sites->events)
		return add_event(process, file, i, sites);
	err = add_roles(process, file, site, sites);
	return !err && site->is_grouped ? add_group(process, file, site, sites) : err;
}

/*
 * Add the sites [FIRST, END) of FILE, which belong to one probe. If it is a function that has a
 * changed window, add none of them: its other windows could not time its calls.
 */
static int add_probe_sites(struct inside_process *process, const struct file_mappings *mapped,
			   const struct engine_file *file, size_t first, size_t end,
			   struct sites_to_count *sites)
{
	const size_t n_sites = process->n_sites, n_roles = sites->n_roles;
	const uint32_t n_groups = process->n_groups;
	bool changed = false;
	int err = 0;

	for (size_t i = first; !err && !changed && i < end; i++)
		if (!file->sites[i].is_off)
			err = add_counted_site(process, mapped, file, i, sites, &changed);
	if (changed) {
		process->n_sites = n_sites;
		sites->n_roles = n_roles;
		if (process->n_groups > n_groups)
			sites->group_of[process->groups[--process->n_groups]] = 0;
		sites->n_changed++;
	}
	return err;
}

/* Return the number of the first site of FILE behind site I that belongs to another probe. */
static size_t end_of_probe(const struct engine_file *file, size_t i)
{
	const uint32_t probe = file->sites[i].probe_index;

	while (i < file->n_sites && file->sites[i].probe_index == probe)
		i++;
	return i;
}

/*
 * Copy the present bytes of the windows of FILE at once. If that fails, they are read one by one.
 */
static void copy_windows(struct ocp_ctx *ctx, const struct file_mappings *mapped,
			 const struct engine_file *file, struct sites_to_count *sites)
{
	struct memory_piece *pieces = calloc(file->n_sites + 1, sizeof(*pieces));
	size_t n = 0;

	for (size_t i = 0; pieces && i < file->n_sites; i++) {
		const struct engine_site *site = &file->sites[i];
		struct memory_piece *piece = &pieces[n];

		if (!site->site || !site->site->window || site->is_off)
			continue;
		piece->bytes = (uint16_t)site->site->n_window;
		n += file_mappings_address(mapped, site->nop_off, true, &piece->addr) == 1;
	}
	if (pieces)
		memory_copies_read(ctx, sites->memory, pieces, n, &sites->windows);
}

static int add_file_sites(struct inside_process *process, const struct maps *maps,
			  const struct engine_file *file, struct sites_to_count *sites)
{
	struct file_mappings mapped = { .pid = process->pid };
	int err = 0;

	if (file->n_sites && stat(file->path, &mapped.stat) != 0)
		return ctx_error(process->ctx, -errno, "%s: %s", file->name, strerror(errno));
	if (file->n_sites)
		err = file_mappings_find(process->ctx, maps, &mapped);
	if (!err && file->n_sites)
		copy_windows(process->ctx, &mapped, file, sites);
	for (size_t i = 0, end; !err && i < file->n_sites; i = end) {
		end = end_of_probe(file, i);
		err = add_probe_sites(process, &mapped, file, i, end, sites);
	}
	memory_copies_free(&sites->windows);
	free(mapped.mappings);
	return err;
}

int inside_process_check(struct ocp_ctx *ctx, pid_t pid, size_t n_sites, size_t n_unfit)
{
	if (!n_sites)
		return ctx_error(ctx, -ENOTSUP,
				 "pid %d: has no probe yet that the engine `inside` can count",
				 (int)pid);
	if (n_unfit)
		return ctx_error(
			ctx, -ENOTSUP,
			"pid %d: %zu site%s dormant, which the engine `inside` cannot count",
			(int)pid, n_unfit, n_unfit == 1 ? " is" : "s are");
	return 0;
}

static bool has_pid(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Check that the engine can count all sites of those files in FILES[0..N) that list the process. */
static int check_mapped_files(const struct inside_process *process, const struct engine_file *files,
			      size_t n)
{
	size_t n_sites = 0, n_unfit = 0;

	for (size_t i = 0; i < n; i++) {
		if (!has_pid(files[i].pids, files[i].n_pids, process->pid))
			continue;
		n_sites += files[i].n_sites;
		for (size_t j = 0; j < files[i].n_sites; j++)
			n_unfit += files[i].sites[j].needs_kernel;
	}
	return inside_process_check(process->ctx, process->pid, n_sites, n_unfit);
}

/*
 * Record the start time, name and executable of PID in PROCESS. detach_children() finds forked
 * children by the executable.
 */
static int know_process(struct inside_process *process, pid_t pid)
{
	char path[PROC_PATH_BYTES], name[PATH_MAX];
	ssize_t length;
	struct proc_status status;

	proc_path(path, pid, "exe");
	length = readlink(path, name, sizeof(name) - 1);
	if (length < 0 || stat(path, &process->exe) != 0 ||
	    proc_start_time(pid, &process->start_time) != 0)
		return ctx_error(process->ctx, -ESRCH, "pid %d: has ended", (int)pid);
	name[length] = '\0';
	snprintf(process->base, sizeof(process->base), "%.*s", FIND_NAME_BYTES, base_name(name));
	if (proc_status_read(process->ctx, pid, &status) == 0)
		memcpy(process->comm, status.name, strnlen(status.name, sizeof(process->comm) - 1));
	process->pid = pid;
	return 0;
}

static int attach_sites(struct inside_process *process, const struct sites_to_count *sites)
{
	const struct inside_plan *plan = sites->plan;
	struct inside_spec spec = {
		.held = plan->held,
		.sites = sites->sites,
		.n_sites = process->n_sites,
		.n_pairs = process->n_pairs,
		.n_groups = process->n_time_groups + process->n_groups,
		.groups_times = process->n_time_groups,
		.depth = plan->depth,
		.max_threads = MAX_THREADS,
		.event_bytes = plan->event_bytes,
		.event_args = sites->event_args,
	};
	struct inside_meta meta = plan->meta;
	struct inside_meta_head head;
	struct iovec pieces[INSIDE_META_PIECES];

	if (!process->n_sites)
		return ctx_error(process->ctx, -ENOTSUP, "pid %d: has no site to count inside",
				 (int)process->pid);
	meta.numbers = process->numbers;
	meta.n_numbers = process->n_numbers;
	meta.n_sites = process->n_sites;
	if (meta.text) {
		spec.meta_bytes = inside_meta_pieces(&meta, &head, pieces);
		spec.meta = pieces;
		spec.n_meta = INSIDE_META_PIECES;
	}
	return inside_attach(process->ctx, process->pid, &spec, &process->inside);
}

/* Allocate memory for all sites and their roles. */
static int allocate_sites(struct inside_process *process, const struct engine_file *files, size_t n,
			  struct sites_to_count *sites)
{
	const struct inside_plan *plan = sites->plan;
	size_t n_roles = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < files[i].n_sites; j++)
			n_roles += files[i].sites[j].n_roles + 1;
	sites->sites = populated_calloc(plan->max_sites + 1, sizeof(*sites->sites));
	sites->roles = calloc(n_roles + 1, sizeof(*sites->roles));
	process->numbers = calloc(plan->max_sites + 1, sizeof(*process->numbers));
	if (plan->points)
		sites->events = calloc(plan->max_sites + 1, sizeof(*sites->events));
	if (plan->by_process)
		process->probes = calloc(plan->max_sites + 1, sizeof(*process->probes));
	if (plan->by.is_on) {
		process->groups = calloc(plan->max_sites + 1, sizeof(*process->groups));
		sites->group_of = calloc(plan->max_sites + 1, sizeof(*sites->group_of));
	}
	return sites->sites && sites->roles && process->numbers &&
			       (sites->events || !plan->points) &&
			       (process->probes || !plan->by_process) &&
			       ((process->groups && sites->group_of) || !plan->by.is_on)
		       ? 0
		       : ctx_no_memory(process->ctx);
}

/*
 * Warn of N functions, and lines if HAS_LINES, that have a window whose code has changed. Return
 * -EBUSY if a tool counts in the process already, -ENOTSUP if there is no other site.
 */
static int check_changed(const struct inside_process *process, size_t n, bool has_lines)
{
	static const char why[] = "another tool has a uprobe on, or has changed, the code that a "
				  "jump would replace";
	int err = n ? inside_check_not_counted(process->ctx, process->pid) : 0;

	if (err)
		return err;
	if (n && !process->n_sites) {
		ctx_error(process->ctx, -ENOTSUP, "pid %d: cannot be counted inside: %s",
			  (int)process->pid, why);
		ctx_hint(process->ctx, "end the other tool, or count with --engine bpf");
		return -ENOTSUP;
	}
	if (n)
		ctx_log(process->ctx, OCP_LOG_WARN, "pid %d: %zu function%s%s %s not counted: %s",
			(int)process->pid, n, plural(n),
			!has_lines ? ""
			: n == 1   ? " or line"
				   : " or lines",
			n == 1 ? "is" : "are", why);
	return 0;
}

/*
 * Warn of the one danger that the tool cannot prevent: others set uprobes at the entries of
 * functions, and the windows of C functions are there (code/window.h).
 */
static void tell_of_entries(const struct inside_process *process, size_t n)
{
	if (n)
		ctx_log(process->ctx, OCP_LOG_WARN,
			"pid %d: counts %zu function%s of C inside: until this ends, a uprobe at such "
			"an entry (bpftrace, perf, --engine bpf) would crash the process",
			(int)process->pid, n, plural(n));
}

static int attach_counters(struct inside_process *process, const struct inside_plan *plan,
			   const struct engine_file *files, size_t n)
{
	struct sites_to_count sites = { .plan = plan, .filters.filter = &plan->filter };
	struct maps maps = { 0 };
	int err = allocate_sites(process, files, n, &sites);

	if (!err)
		err = check_mapped_files(process, files, n);
	if (!err)
		err = maps_read(process->ctx, process->pid, &maps);
	if (!err)
		err = know_process(process, process->pid);
	if (!err)
		err = memory_open(process->ctx, process->pid, &sites.memory);
	for (size_t i = 0; !err && i < n; i++)
		if (has_pid(files[i].pids, files[i].n_pids, process->pid))
			err = add_file_sites(process, &maps, &files[i], &sites);
	process->n_numbers = process->n_sites;
	if (!err)
		err = check_changed(process, sites.n_changed, sites.has_shared);
	if (!err && sites.has_shared)
		err = shared_windows_join(process->ctx, sites.sites, &process->n_sites,
					  process->numbers);
	if (!err)
		err = attach_sites(process, &sites);
	if (!err)
		tell_of_entries(process, sites.n_c_entries);
	memory_close(sites.memory);
	maps_free(&maps);
	inside_filters_free(&sites.filters);
	free(sites.sites);
	free(sites.roles);
	free(sites.events);
	free(sites.group_of);
	return err;
}

int inside_process_attach(struct ocp_ctx *ctx, const struct inside_plan *plan, pid_t pid,
			  const struct engine_file *files, size_t n, struct inside_process **out)
{
	struct inside_process *process = calloc(1, sizeof(*process));
	int err;

	*out = NULL;
	if (!process)
		return ctx_no_memory(ctx);
	process->ctx = ctx;
	process->pid = pid;
	/* The pairs of a process that writes events are matched when its events are read. */
	process->n_pairs = plan->points ? 0 : plan->n_pairs;
	process->n_time_groups = plan->by.is_on ? (uint32_t)process->n_pairs : 0;
	err = attach_counters(process, plan, files, n);
	if (!err && plan->points)
		err = event_matcher_new(ctx, plan->roles, plan->n_pairs, plan->depth, plan->points,
					2 * plan->max_sites, process->inside, pid,
					&process->events);
	if (err)
		inside_process_close(process);
	else
		*out = process;
	return err;
}

int inside_process_found(struct ocp_ctx *ctx, pid_t pid, struct inside *inside,
			 struct inside_number *numbers, size_t n, struct inside_process **out)
{
	struct inside_process *process = calloc(1, sizeof(*process));
	int err;

	*out = NULL;
	if (!process) {
		inside_close(inside);
		free(numbers);
		return ctx_no_memory(ctx);
	}
	*process = (struct inside_process){
		.ctx = ctx,
		.inside = inside,
		.numbers = numbers,
		.n_numbers = n,
		.n_sites = inside_n_sites(inside),
		.n_pairs = inside_n_pairs(inside),
		.is_found = true,
	};
	err = know_process(process, pid);
	if (err)
		inside_process_close(process);
	else
		*out = process;
	return err;
}

/* ---- results -------------------------------------------------------------------------------- */

/*
 * Add FROM, the counts of a pair in one process, to TO, the totals of all processes. Add the
 * histogram of FROM to BUCKETS.
 */
static void add_pair_counts(const struct inside_pair *from, struct ocp_pair *to, uint64_t *buckets)
{
	if (from->count && (!to->count || from->min_ns < to->min_ns))
		to->min_ns = from->min_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	to->starts += from->starts;
	to->count += from->count;
	to->sum_ns += from->sum_ns;
	to->orphan_starts += from->orphan_starts;
	to->orphan_stops += from->orphan_stops;
	to->map_full += from->collisions;
	to->not_keyed += from->not_keyed;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		buckets[i] += from->buckets[i];
}

/*
 * Warn, once, if another tool has changed sites: the counts are then too small, because hits at
 * these sites are missing.
 */
static void warn_of_changes(struct inside_process *process)
{
	struct inside_state state = { 0 };

	if (process->has_warned || process->is_detached ||
	    inside_state(process->inside, &state) != 0 || state.n_patched >= process->n_sites)
		return;
	process->has_warned = true;
	ctx_log(process->ctx, OCP_LOG_WARN,
		"pid %d: %zu of %zu site%s not counted now, because another program has changed "
		"them: hits are missing",
		(int)process->pid, process->n_sites - state.n_patched, process->n_sites,
		process->n_sites == 1 ? " is" : "s are");
}

/* Add a row to READING for each probe with hits in this process. */
static int add_probe_rows(struct inside_process *process, const uint64_t *hits,
			  struct engine_reading *reading)
{
	const size_t n = process->n_probes;
	uint64_t *sums = calloc(n + 1, sizeof(*sums));
	struct engine_keyed *grown =
		reallocarray(reading->keyed, reading->n_keyed + n + 1, sizeof(*grown));

	if (grown)
		reading->keyed = grown;
	if (!grown || !sums) {
		free(sums);
		return ctx_no_memory(process->ctx);
	}
	for (size_t i = 0; i < process->n_numbers; i++)
		if (process->probes[i] != NO_PROBE)
			sums[process->probes[i]] += hits[process->numbers[i].site];
	for (uint32_t i = 0; i < n; i++) {
		struct engine_keyed *row = &grown[reading->n_keyed];

		if (!sums[i])
			continue;
		*row = (struct engine_keyed){ .id = (uint32_t)process->pid,
					      .tgid = (uint32_t)process->pid,
					      .probe_index = i,
					      .hits = sums[i] };
		memcpy(row->comm, process->comm, sizeof(row->comm));
		reading->n_keyed++;
	}
	free(sums);
	return 0;
}

/* Append a group of PROBE with HITS hits to READING, which has room for it. */
static void append_group(struct engine_reading *reading, uint32_t probe, uint32_t type,
			 int64_t value, uint64_t hits)
{
	if (hits)
		reading->groups[reading->n_groups++] = (struct engine_group){
			.value = { .what = probe, .type = type, .number = (uint64_t)value },
			.hits = hits,
		};
}

/* Append to READING what group number NUMBER has counted; GROUP has room for its values. */
static int add_values(const struct inside_process *process, uint32_t number,
		      struct inside_group *group, struct engine_reading *reading)
{
	const uint32_t probe = process->groups[number];
	struct engine_group *grown;

	inside_read_group(process->inside, process->n_time_groups + number, group);
	grown = reallocarray(reading->groups, reading->n_groups + group->n + 2, sizeof(*grown));
	if (!grown)
		return ctx_no_memory(process->ctx);
	reading->groups = grown;
	for (size_t i = 0; i < group->n; i++)
		append_group(reading, probe, FILTER_TYPE_INT, group->values[i].value,
			     group->values[i].hits);
	append_group(reading, probe, FILTER_TYPE_NOT_INT, 0, group->not_ints);
	if (group->others)
		reading->groups[reading->n_groups++] = (struct engine_group){
			.is_others = true, .value.what = probe, .hits = group->others
		};
	return 0;
}

/* What append_times() needs. */
struct time_groups {
	struct engine_reading *reading; /* with room for `room` more groups, and their times */
	struct measure_by_times *times; /* of the next group */
	size_t room;
	uint32_t pair;
};

/* Append TIMES, those of one value of a pair, to the reading. */
static void append_times(void *data, const struct inside_times *times)
{
	struct time_groups *groups = data;
	struct measure_by_times *to = groups->times;

	/* The process can write to its block: there may be more values than there is room for. */
	if (!groups->room)
		return;
	groups->room--;
	groups->times++;
	*to = (struct measure_by_times){
		.count = times->count,
		.sum_ns = times->sum_ns,
		.min_ns_not = times->min_ns_not,
		.max_ns = times->max_ns,
	};
	for (size_t i = 0; i < MEASURE_BUCKETS; i++)
		to->buckets[i] = times->buckets[i];
	groups->reading->groups[groups->reading->n_groups++] = (struct engine_group){
		.is_others = times->is_others,
		.value = { .what = groups->pair,
			   .type = times->is_others ? 0
				   : times->is_int  ? FILTER_TYPE_INT
						    : FILTER_TYPE_NOT_INT,
			   .number = times->is_int ? (uint64_t)times->value : 0 },
		.hits = times->count,
		.times = to,
	};
}

size_t inside_process_times_room(const struct inside_process *process)
{
	return process->n_time_groups ? inside_times_room(process->inside) : 0;
}

int inside_process_add_times(const struct inside_process *process, struct engine_reading *reading,
			     struct measure_by_times *times, size_t *n)
{
	const size_t room = inside_process_times_room(process);
	struct time_groups groups = { .reading = reading, .times = times, .room = room };
	struct engine_group *grown;

	*n = 0;
	if (!room)
		return 0;
	grown = reallocarray(reading->groups, reading->n_groups + room, sizeof(*grown));
	if (!grown)
		return ctx_no_memory(process->ctx);
	reading->groups = grown;
	for (uint32_t i = 0; i < process->n_time_groups; i++) {
		groups.pair = i;
		inside_read_times(process->inside, i, i, append_times, &groups);
	}
	*n = room - groups.room;
	return 0;
}

/* Add the groups of the hits of this process to READING. */
static int add_process_groups(const struct inside_process *process, struct engine_reading *reading)
{
	struct inside_group group = { 0 };
	int err = 0;

	if (!process->n_groups)
		return 0;
	group.values = calloc(inside_group_room(process->inside), sizeof(*group.values));
	if (!group.values)
		return ctx_no_memory(process->ctx);
	for (uint32_t i = 0; !err && i < process->n_groups; i++)
		err = add_values(process, i, &group, reading);
	free(group.values);
	return err;
}

/* Add all hits of this process, also those that the filter rejects, to READING as one entry. */
static int add_process_hits(const struct inside_process *process, const uint64_t *hits,
			    uint64_t rejected, struct engine_reading *reading)
{
	struct engine_process *new = array_add(reading->processes, reading->n_processes);

	if (!new)
		return ctx_no_memory(process->ctx);
	*new = (struct engine_process){ .tgid = (uint32_t)process->pid, .hits = rejected };
	for (size_t i = 0; i < process->n_sites; i++)
		new->hits += hits[i];
	return 0;
}

/* Add to READING what the filter has rejected, and what it could not judge. */
static void add_filtered(const struct inside_process *process,
			 const struct inside_filtered *filtered, struct engine_reading *reading)
{
	struct engine_mismatch *mismatch = &reading->mismatch;

	reading->losses.filtered += filtered->rejected;
	reading->losses.filter_mismatches += filtered->mismatches;
	for (size_t i = 0; filtered->mismatches && i < process->n_numbers; i++)
		if (process->numbers[i].site == filtered->site)
			*mismatch = (struct engine_mismatch){ .is_set = true,
							      .number = process->numbers[i].number,
							      .arg = filtered->arg };
}

int inside_process_add(struct inside_process *process, struct engine_reading *reading)
{
	uint64_t *hits = calloc(process->n_sites + 1, sizeof(*hits));
	struct inside_pair *pairs = calloc(process->n_pairs + 1, sizeof(*pairs));
	struct inside_filtered filtered = { 0 };
	int err = hits && pairs ? inside_read(process->inside, hits, pairs)
				: ctx_no_memory(process->ctx);

	if (!err)
		warn_of_changes(process);
	if (!err)
		inside_read_filtered(process->inside, &filtered);
	add_filtered(process, &filtered, reading);
	for (size_t i = 0; !err && i < process->n_numbers; i++)
		reading->hits[process->numbers[i].number] += hits[process->numbers[i].site];
	if (!err && process->events)
		event_matcher_read(process->events, reading);
	for (size_t i = 0; !err && !reading->only_hits && i < process->n_pairs; i++)
		add_pair_counts(&pairs[i], &reading->pairs[i], reading->pair_buckets[i]);
	if (!err && reading->only_hits)
		err = add_process_hits(process, hits, filtered.rejected, reading);
	else if (!err && process->probes)
		err = add_probe_rows(process, hits, reading);
	if (!err && !reading->only_hits)
		err = add_process_groups(process, reading);
	free(hits);
	free(pairs);
	return err;
}

bool inside_process_counts_in(const struct inside_process *process, pid_t pid)
{
	return !process->is_detached && inside_is_in(process->inside, pid);
}

/* ---- the end -------------------------------------------------------------------------------- */

static bool process_has_ended(const struct inside_process *process)
{
	uint64_t start_time;

	return proc_start_time(process->pid, &start_time) != 0 || start_time != process->start_time;
}

/*
 * Detach from PID if it shares the block of PROCESS. A forked child shares the block, and has
 * copies of the sites. The block is recognised by its start time and number of sites. Return true
 * if PID was detached.
 */
static bool detach_child(struct inside_process *process, pid_t pid)
{
	struct inside_state state = { 0 };
	uint64_t start_time;
	struct inside *child;
	bool is_ours = pid != process->pid && inside_find(process->ctx, pid, &child) > 0;

	if (!is_ours)
		return false;
	is_ours = inside_start_ns(child) == inside_start_ns(process->inside) &&
		  inside_n_sites(child) == inside_n_sites(process->inside) &&
		  inside_state(child, &state) == 0 && state.n_patched + state.n_switched;
	if (is_ours && inside_detach(child) != 0) {
		if (proc_start_time(pid, &start_time) == 0)
			ctx_log(process->ctx, OCP_LOG_WARN, "%s", ocp_error(process->ctx));
		is_ours = false;
	}
	inside_close(child);
	return is_ours;
}

/*
 * Detach from all forked children that have not executed another program. Search until no new child
 * is found, because children may fork meanwhile.
 */
static void detach_children(struct inside_process *process)
{
	bool found_one = true;

	for (int i = 0; found_one && i < MAX_CHILD_ROUNDS; i++) {
		struct find_memory memory = { 0 };
		struct found_processes found = { 0 };

		found_one = false;
		if (find_processes(process->ctx, &process->exe, process->base, &memory, &found) !=
		    0)
			ctx_log(process->ctx, OCP_LOG_WARN, "%s", ocp_error(process->ctx));
		for (size_t j = 0; j < found.n; j++)
			found_one |= detach_child(process, found.pids[j]);
		found_processes_free(&found);
		find_memory_free(&memory);
	}
}

int inside_process_detach(struct inside_process *process)
{
	int err;

	if (process->is_detached)
		return 0;
	warn_of_changes(process);
	/*
	 * A process that an earlier tool attached may share its block with its parent and siblings:
	 * detach from these first.
	 */
	if (process->is_found)
		detach_children(process);
	err = inside_detach(process->inside);
	/* If the process has ended, this is not a failure: its counts can still be read. */
	if (err && process_has_ended(process)) {
		err = 0;
	} else if (err == -ESRCH) {
		ctx_log(process->ctx, OCP_LOG_WARN, "%s", ocp_error(process->ctx));
		err = 0;
	}
	if (err)
		return err;
	process->is_detached = true;
	detach_children(process);
	return 0;
}

void inside_process_tell_left(const struct inside_process *process)
{
	ctx_log(process->ctx, OCP_LOG_WARN,
		"%s; its counters still run: ocaml-probes doctor -pid %d --fix removes them",
		ocp_error(process->ctx), (int)process->pid);
}

struct event_matcher *inside_process_events(const struct inside_process *process)
{
	return process->events;
}

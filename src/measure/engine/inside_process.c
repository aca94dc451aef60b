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
#include "base/plural.h"
#include "base/populate.h"
#include "measure/engine/inside_place.h"
#include "process/find.h"
#include "tracee/maps.h"
#include "tracee/proc_file.h"

enum {
	MAX_THREADS = 1024,    /* threads that can time pairs at the same time */
	OCAML_COUNTER_OFF = 2, /* offset of the half of a semaphore that OCaml reads */
	NO_PROBE = UINT32_MAX,
	/*
	 * Searches for forked children. Each search finds children that were forked during the
	 * previous one.
	 */
	MAX_CHILD_ROUNDS = 100,
};

struct inside_process {
	struct ocp_ctx *ctx;
	struct inside *inside;
	uint32_t *numbers; /* by site: its number in the engine */
	/* By site: the probe to whose row its hits are added, or NO_PROBE. NULL: no rows. */
	uint32_t *probes;
	uint32_t n_probes; /* all numbers in `probes` are below this */
	char comm[16];
	size_t n_sites, n_pairs;
	pid_t pid;
	uint64_t start_time;
	struct stat exe;
	char base[FIND_NAME_BYTES + 1]; /* name of its executable, without the path */
	bool is_detached, has_warned;
	bool is_found; /* an earlier tool has attached it */
};

/* The sites to attach to. */
struct sites_to_count {
	const struct inside_plan *plan;
	struct inside_site *sites;
	struct inside_place *places; /* of the key arguments; NULL: no role has a key */
	size_t n_places;
};

/* ---- addresses ------------------------------------------------------------------------------ */

/* A file, and its mappings in a process. */
struct file_mappings {
	pid_t pid;
	struct stat stat;
	struct mapping *mappings;
	size_t n;
};

/*
 * Return true if M maps FILE. On overlayfs and btrfs, the device of a mapping differs from the
 * device of its file. So compare the inodes. If there is a file at the path of the mapping, it must
 * be FILE, too.
 */
static bool is_of_file(const struct file_mappings *file, const struct mapping *m)
{
	char path[PATH_MAX + PROC_PATH_BYTES];
	struct stat st;

	if (m->inode != file->stat.st_ino)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)file->pid, m->path);
	return stat(path, &st) != 0 ||
	       (st.st_ino == file->stat.st_ino && st.st_dev == file->stat.st_dev);
}

static int find_mappings(struct inside_process *process, const struct maps *maps,
			 struct file_mappings *file)
{
	file->mappings = calloc(maps->n + 1, sizeof(*file->mappings));
	if (!file->mappings)
		return ctx_no_memory(process->ctx);
	for (size_t i = 0; i < maps->n; i++)
		if (is_of_file(file, &maps->mappings[i]))
			file->mappings[file->n++] = maps->mappings[i];
	return 0;
}

/*
 * Set *ADDR to the address at which the process has mapped the byte at OFF of FILE: in an
 * executable mapping if EXECUTABLE, otherwise in a writable one. Return the number of such
 * mappings.
 */
static size_t find_mapped_address(const struct file_mappings *file, uint64_t off, bool executable,
				  uint64_t *addr)
{
	size_t n = 0;

	for (size_t i = 0; i < file->n; i++) {
		const struct mapping *m = &file->mappings[i];

		if ((executable ? m->executable : m->writable) && off >= m->off &&
		    off - m->off < m->end - m->start) {
			*addr = m->start + (off - m->off);
			n++;
		}
	}
	return n;
}

static void note_probe(struct inside_process *process, const struct engine_site *site)
{
	process->probes[process->n_sites] = site->is_keyed ? site->probe_index : NO_PROBE;
	if (site->is_keyed && site->probe_index >= process->n_probes)
		process->n_probes = site->probe_index + 1;
}

/*
 * If any role has a key, add one place for each role of SITE: the place of the role's key argument.
 */
static int add_places(struct inside_process *process, const struct engine_file *file,
		      const struct engine_site *site, struct sites_to_count *sites)
{
	const struct inside_plan *plan = sites->plan;

	for (uint32_t i = 0; sites->places && i < site->n_roles; i++) {
		const uint32_t role = site->first_role + i;
		struct inside_place *place = &sites->places[sites->n_places++];

		if (plan->roles[role].is_keyed &&
		    !inside_place_of(&file->args[site->args].args[plan->key_args[role]], place))
			return ctx_error(process->ctx, -ENOTSUP,
					 "pid %d: a site of %s has the key neither in a register "
					 "nor on the stack, where the engine `inside` reads it",
					 (int)process->pid, file->name);
	}
	return 0;
}

static int add_counted_site(struct inside_process *process, const struct file_mappings *mapped,
			    const struct engine_file *file, size_t i, struct sites_to_count *sites)
{
	const struct engine_site *site = &file->sites[i];
	uint64_t addr = 0, semaphore = 0;
	const size_t n = find_mapped_address(mapped, site->nop_off, true, &addr);
	const bool has_semaphore =
		site->ref_ctr_off &&
		find_mapped_address(mapped, site->ref_ctr_off, false, &semaphore) == 1;

	if (n != 1)
		return ctx_error(
			process->ctx, -ENOTSUP,
			n ? "pid %d: maps the code of %s twice, and cannot be counted "
			    "inside"
			  : "pid %d: has no mapping of a site of %s, and cannot be counted "
			    "inside",
			(int)mapped->pid, file->name);
	sites->sites[process->n_sites] = (struct inside_site){
		.addr = addr,
		.semaphore = has_semaphore ? semaphore + OCAML_COUNTER_OFF : 0,
		.needs_private_gate = !has_semaphore,
		.first_role = site->first_role,
		.n_roles = site->n_roles,
		.first_place = (uint32_t)sites->n_places,
	};
	if (process->probes)
		note_probe(process, site);
	process->numbers[process->n_sites++] = (uint32_t)(file->first_site + i);
	return add_places(process, file, site, sites);
}

static bool lists(const struct engine_file *file, pid_t pid)
{
	for (size_t i = 0; i < file->n_pids; i++)
		if (file->pids[i] == pid)
			return true;
	return false;
}

static int add_file_sites(struct inside_process *process, const struct maps *maps,
			  const struct engine_file *file, struct sites_to_count *sites)
{
	struct file_mappings mapped = { .pid = process->pid };
	int err = 0;

	if (file->n_sites && stat(file->path, &mapped.stat) != 0)
		return ctx_error(process->ctx, -errno, "%s: %s", file->name, strerror(errno));
	if (file->n_sites)
		err = find_mappings(process, maps, &mapped);
	for (size_t i = 0; !err && i < file->n_sites; i++)
		if (!file->sites[i].is_off)
			err = add_counted_site(process, &mapped, file, i, sites);
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

/* Check that the engine can count all sites of those files in FILES[0..N) that list the process. */
static int check_mapped_files(const struct inside_process *process, const struct engine_file *files,
			      size_t n)
{
	size_t n_sites = 0, n_unfit = 0;

	for (size_t i = 0; i < n; i++) {
		if (!lists(&files[i], process->pid))
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
	const char *slash;

	proc_path(path, pid, "exe");
	length = readlink(path, name, sizeof(name) - 1);
	if (length < 0 || stat(path, &process->exe) != 0 ||
	    proc_start_time(pid, &process->start_time) != 0)
		return ctx_error(process->ctx, -ESRCH, "pid %d: has ended", (int)pid);
	name[length] = '\0';
	slash = strrchr(name, '/');
	snprintf(process->base, sizeof(process->base), "%.*s", FIND_NAME_BYTES,
		 slash ? slash + 1 : name);
	if (proc_status_read(process->ctx, pid, &status) == 0)
		memcpy(process->comm, status.name, strnlen(status.name, sizeof(process->comm) - 1));
	process->pid = pid;
	return 0;
}

static int attach_sites(struct inside_process *process, const struct sites_to_count *sites)
{
	const struct inside_plan *plan = sites->plan;
	struct inside_spec spec = {
		.sites = sites->sites,
		.n_sites = process->n_sites,
		.roles = plan->roles,
		.places = sites->places,
		.n_pairs = plan->n_pairs,
		.depth = plan->depth,
		.max_threads = MAX_THREADS,
	};
	struct inside_meta meta = *plan->meta;
	struct inside_meta_head head;
	struct iovec pieces[INSIDE_META_PIECES];

	if (!process->n_sites)
		return ctx_error(process->ctx, -ENOTSUP, "pid %d: has no site to count inside",
				 (int)process->pid);
	meta.numbers = process->numbers;
	meta.n_sites = process->n_sites;
	if (meta.text) {
		spec.meta_bytes = inside_meta_pieces(&meta, &head, pieces);
		spec.meta = pieces;
		spec.n_meta = INSIDE_META_PIECES;
	}
	return inside_attach(process->ctx, process->pid, &spec, &process->inside);
}

/* Allocate memory for all sites and for the keys of their roles. */
static int allocate_sites(struct inside_process *process, const struct engine_file *files, size_t n,
			  struct sites_to_count *sites)
{
	const struct inside_plan *plan = sites->plan;
	size_t n_places = 0;

	for (size_t i = 0; plan->key_args && i < n; i++)
		for (size_t j = 0; j < files[i].n_sites; j++)
			n_places += files[i].sites[j].n_roles;
	sites->sites = populated_calloc(plan->max_sites + 1, sizeof(*sites->sites));
	process->numbers = calloc(plan->max_sites + 1, sizeof(*process->numbers));
	if (plan->by_process)
		process->probes = calloc(plan->max_sites + 1, sizeof(*process->probes));
	if (plan->key_args)
		sites->places = calloc(n_places + 1, sizeof(*sites->places));
	return sites->sites && process->numbers && (process->probes || !plan->by_process) &&
			       (sites->places || !plan->key_args)
		       ? 0
		       : ctx_no_memory(process->ctx);
}

static int attach_counters(struct inside_process *process, const struct inside_plan *plan,
			   const struct engine_file *files, size_t n)
{
	struct sites_to_count sites = { .plan = plan };
	struct maps maps = { 0 };
	int err = allocate_sites(process, files, n, &sites);

	if (!err)
		err = check_mapped_files(process, files, n);
	if (!err)
		err = maps_read(process->ctx, process->pid, &maps);
	if (!err)
		err = know_process(process, process->pid);
	for (size_t i = 0; !err && i < n; i++)
		if (lists(&files[i], process->pid))
			err = add_file_sites(process, &maps, &files[i], &sites);
	if (!err)
		err = attach_sites(process, &sites);
	maps_free(&maps);
	free(sites.sites);
	free(sites.places);
	return err;
}

int inside_process_attach(struct ocp_ctx *ctx, pid_t pid, const struct inside_plan *plan,
			  const struct engine_file *files, size_t n, struct inside_process **out)
{
	struct inside_process *process = calloc(1, sizeof(*process));
	int err;

	*out = NULL;
	if (!process)
		return ctx_no_memory(ctx);
	process->ctx = ctx;
	process->pid = pid;
	process->n_pairs = plan->n_pairs;
	err = attach_counters(process, plan, files, n);
	if (err)
		inside_process_close(process);
	else
		*out = process;
	return err;
}

int inside_process_found(struct ocp_ctx *ctx, pid_t pid, struct inside *inside, uint32_t *numbers,
			 struct inside_process **out)
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

/* Add FROM, the counts of a pair in one process, to TO, the totals of all processes. */
static void add_pair_counts(const struct inside_pair *from, struct engine_pair *to)
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
	for (size_t i = 0; i < sizeof(to->buckets) / sizeof(to->buckets[0]); i++)
		to->buckets[i] += from->buckets[i];
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
	for (size_t i = 0; i < process->n_sites; i++)
		if (process->probes[i] != NO_PROBE)
			sums[process->probes[i]] += hits[i];
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

/* Add all hits of this process to READING as one entry. */
static int add_process_hits(const struct inside_process *process, const uint64_t *hits,
			    struct engine_reading *reading)
{
	struct engine_process *new = array_add(reading->processes, reading->n_processes);

	if (!new)
		return ctx_no_memory(process->ctx);
	*new = (struct engine_process){ .tgid = (uint32_t)process->pid };
	for (size_t i = 0; i < process->n_sites; i++)
		new->hits += hits[i];
	return 0;
}

int inside_process_add(struct inside_process *process, struct engine_reading *reading)
{
	uint64_t *hits = calloc(process->n_sites + 1, sizeof(*hits));
	struct inside_pair *pairs = calloc(process->n_pairs + 1, sizeof(*pairs));
	int err = hits && pairs ? inside_read(process->inside, hits, pairs)
				: ctx_no_memory(process->ctx);

	if (!err)
		warn_of_changes(process);
	for (size_t i = 0; !err && i < process->n_sites; i++)
		reading->hits[process->numbers[i]] += hits[i];
	for (size_t i = 0; !err && !reading->only_hits && i < process->n_pairs; i++)
		add_pair_counts(&pairs[i], &reading->pairs[i]);
	if (!err && reading->only_hits)
		err = add_process_hits(process, hits, reading);
	else if (!err && process->probes)
		err = add_probe_rows(process, hits, reading);
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
 * Detach from PID if it shares the block of PROCESS. A forked child does, and has copies of the
 * sites. The block is recognised by its start time and number of sites. Return true if PID was
 * detached.
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
 * is found: children may fork meanwhile.
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
	 * A found process may share its block with its parent and siblings: detach from these
	 * first.
	 */
	if (process->is_found)
		detach_children(process);
	err = inside_detach(process->inside);
	/* Do not fail if the process has ended: its counts can still be read. */
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
		"%s; it counts on: ocaml-probes doctor -pid %d --fix restores its sites",
		ocp_error(process->ctx), (int)process->pid);
}

void inside_process_close(struct inside_process *process)
{
	if (!process)
		return;
	inside_close(process->inside);
	free(process->numbers);
	free(process->probes);
	free(process);
}

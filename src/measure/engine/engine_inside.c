// SPDX-License-Identifier: MIT
/*
 * The engine that counts inside the process (inside/inside.h): trampolines instead of uprobes. It needs no
 * more than the right to ptrace the process. It measures one process, which is known by its pid, and its
 * forked children; what needs the kernel is refused.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside/inside.h"
#include "inside/own_cost.h"
#include "measure/engine/engine_inside.h"
#include "measure/engine/inside_meta.h"
#include "process/find.h"
#include "tracee/maps.h"
#include "tracee/proc_file.h"

enum {
	MAX_THREADS = 1024,    /* that time pairs at one moment */
	OCAML_COUNTER_OFF = 2, /* of the half that OCaml reads, in the semaphore */
	MAX_CHILD_ROUNDS =
		100, /* searches for forked children; each finds those of the one before */
};

struct engine {
	struct ocp_ctx *ctx;
	struct inside_role *roles;
	size_t n_pairs, max_sites;
	unsigned int depth;
	struct inside *inside; /* NULL: not attached */
	uint32_t *numbers;     /* of the engine, by the number inside */
	size_t n_sites;
	pid_t pid;
	uint64_t start_time;
	struct stat exe;
	char base[FIND_NAME_BYTES + 1]; /* of its executable */
	bool is_detached, has_warned;
	bool is_found; /* an earlier tool has attached it */
	bool is_kept;
	struct inside_meta meta; /* until the attach: name and text */
};

const char *engine_inside_cannot(const struct engine_spec *spec)
{
	if (spec->filter || spec->key_arg != ENGINE_NO_KEY || spec->n_histograms || spec->prints)
		return "arguments of probes";
	if (spec->split == OCP_BY_THREAD || spec->split == OCP_BY_PROCESS)
		return "counts by thread or process";
	if (spec->stack_depth)
		return "stacks";
	if (spec->exe || !spec->pid)
		return "every process of a program";
	if (spec->many_processes)
		return "several processes at a time";
	if (spec->max_frames || spec->has_conditions)
		return "functions";
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
		.roles = calloc(spec->n_roles + 1, sizeof(*engine->roles)),
		.n_pairs = spec->n_pairs,
		.max_sites = spec->max_sites,
		.depth = spec->depth,
	};
	if (!engine->roles) {
		free(engine);
		return ctx_no_memory(ctx);
	}
	for (size_t i = 0; i < spec->n_roles; i++)
		engine->roles[i] = (struct inside_role){ .pair = spec->roles[i].pair,
							 .is_stop = spec->roles[i].is_stop };
	*out = engine;
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* A file in a process, and the mappings that are its own. */
struct mapped_file {
	pid_t pid;
	struct stat stat;
	const struct mapping **mappings;
	size_t n;
};

/* The device of a mapping differs from that of the file on overlayfs and btrfs: ask the path too. */
static bool is_of_file(const struct mapped_file *file, const struct mapping *m)
{
	char path[PATH_MAX + PROC_PATH_BYTES];
	struct stat st;

	if (m->inode != file->stat.st_ino)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)file->pid, m->path);
	return stat(path, &st) != 0 ||
	       (st.st_ino == file->stat.st_ino && st.st_dev == file->stat.st_dev);
}

static int find_mappings(struct engine *engine, const struct maps *maps, struct mapped_file *file)
{
	file->mappings = calloc(maps->n + 1, sizeof(void *));
	if (!file->mappings)
		return ctx_no_memory(engine->ctx);
	for (size_t i = 0; i < maps->n; i++)
		if (is_of_file(file, &maps->mappings[i]))
			file->mappings[file->n++] = &maps->mappings[i];
	return 0;
}

/* Where the process has mapped the byte at OFF of the file. Returns the number of its mappings. */
static size_t address_of(const struct mapped_file *file, uint64_t off, bool executable,
			 uint64_t *addr)
{
	size_t n = 0;

	for (size_t i = 0; i < file->n; i++) {
		const struct mapping *m = file->mappings[i];

		if ((executable ? m->executable : m->writable) && off >= m->off &&
		    off - m->off < m->end - m->start) {
			*addr = m->start + (off - m->off);
			n++;
		}
	}
	return n;
}

static int add_site(struct engine *engine, const struct mapped_file *mapped,
		    const struct engine_file *file, size_t i, struct inside_site *to)
{
	const struct engine_site *site = &file->sites[i];
	uint64_t addr = 0, semaphore = 0;
	const size_t n = address_of(mapped, site->nop_off, true, &addr);
	const bool has_semaphore =
		site->ref_ctr_off && address_of(mapped, site->ref_ctr_off, false, &semaphore) == 1;

	if (n != 1)
		return ctx_error(
			engine->ctx, -ENOTSUP,
			n ? "pid %d: maps the code of %s twice, and cannot be counted "
			    "inside"
			  : "pid %d: has no mapping of a site of %s, and cannot be counted "
			    "inside",
			(int)mapped->pid, file->name);
	*to = (struct inside_site){
		.addr = addr,
		.semaphore = has_semaphore ? semaphore + OCAML_COUNTER_OFF : 0,
		.needs_private_gate = !has_semaphore,
		.first_role = site->first_role,
		.n_roles = site->n_roles,
	};
	engine->numbers[engine->n_sites++] = (uint32_t)(file->first_site + i);
	return 0;
}

static int add_file(struct engine *engine, const struct maps *maps, pid_t pid,
		    const struct engine_file *file, struct inside_site *sites)
{
	struct mapped_file mapped = { .pid = pid };
	int err = 0;

	if (file->n_pids != 1 || file->pids[0] != pid)
		return ctx_error(engine->ctx, -ENOTSUP,
				 "the engine `inside` measures one process at a time");
	if (file->n_sites && stat(file->path, &mapped.stat) != 0)
		return ctx_error(engine->ctx, -errno, "%s: %s", file->name, strerror(errno));
	if (file->n_sites)
		err = find_mappings(engine, maps, &mapped);
	for (size_t i = 0; !err && i < file->n_sites; i++)
		if (!file->sites[i].is_off)
			err = add_site(engine, &mapped, file, i, &sites[engine->n_sites]);
	free(mapped.mappings);
	return err;
}

/* Forked children are found by their executable. */
static int know_process(struct engine *engine, pid_t pid)
{
	char path[PROC_PATH_BYTES], name[PATH_MAX];
	ssize_t length;
	const char *slash;

	proc_path(path, pid, "exe");
	length = readlink(path, name, sizeof(name) - 1);
	if (length < 0 || stat(path, &engine->exe) != 0 ||
	    proc_start_time(pid, &engine->start_time) != 0)
		return ctx_error(engine->ctx, -ESRCH, "pid %d: has ended", (int)pid);
	name[length] = '\0';
	slash = strrchr(name, '/');
	snprintf(engine->base, sizeof(engine->base), "%.*s", FIND_NAME_BYTES,
		 slash ? slash + 1 : name);
	engine->pid = pid;
	return 0;
}

static int attach_sites(struct engine *engine, const struct inside_site *sites)
{
	struct inside_spec spec = {
		.sites = sites,
		.n_sites = engine->n_sites,
		.roles = engine->roles,
		.n_pairs = engine->n_pairs,
		.depth = engine->depth,
		.max_threads = MAX_THREADS,
	};
	struct inside_meta meta = engine->meta;
	void *bytes = NULL;
	int err = 0;

	if (!engine->n_sites)
		return ctx_error(engine->ctx, -ENOTSUP, "pid %d: has no site to count inside",
				 (int)engine->pid);
	meta.numbers = engine->numbers;
	meta.n_sites = engine->n_sites;
	if (meta.text)
		err = inside_meta_write(engine->ctx, &meta, &bytes, &spec.meta_bytes);
	spec.meta = bytes;
	if (!err)
		err = inside_attach(engine->ctx, engine->pid, &spec, &engine->inside);
	free(bytes);
	return err;
}

static int describe(struct engine *engine, const char *name, const char *text)
{
	if (strlen(name) >= sizeof(engine->meta.name))
		return ctx_error(engine->ctx, -EINVAL, "'%s': too long a name", name);
	free(engine->meta.text);
	engine->meta = (struct inside_meta){ .text = strdup(text), .text_bytes = strlen(text) + 1 };
	memcpy(engine->meta.name, name, strlen(name));
	return engine->meta.text ? 0 : ctx_no_memory(engine->ctx);
}

static int attach(struct engine *engine, const struct engine_file *files, size_t n)
{
	const pid_t pid = n && files[0].n_pids ? files[0].pids[0] : 0;
	struct inside_site *sites;
	struct maps maps;
	int err;

	if (engine->inside || !pid)
		return ctx_error(
			engine->ctx, -ENOTSUP,
			"the engine `inside` does not measure files that are loaded later");
	err = maps_read(engine->ctx, pid, &maps);
	if (err)
		return err;
	sites = calloc(engine->max_sites + 1, sizeof(*sites));
	engine->numbers = calloc(engine->max_sites + 1, sizeof(*engine->numbers));
	err = sites && engine->numbers ? know_process(engine, pid) : ctx_no_memory(engine->ctx);
	for (size_t i = 0; !err && i < n; i++)
		err = add_file(engine, &maps, pid, &files[i], sites);
	if (!err)
		err = attach_sites(engine, sites);
	if (err) {
		free(engine->numbers);
		engine->numbers = NULL;
		engine->n_sites = 0;
	}
	maps_free(&maps);
	free(sites);
	return err;
}

/* ---- results -------------------------------------------------------------------------------- */

static void take_pair(const struct inside_pair *from, struct engine_pair *to)
{
	*to = (struct engine_pair){
		.starts = from->starts,
		.count = from->count,
		.sum_ns = from->sum_ns,
		.min_ns = from->min_ns,
		.max_ns = from->max_ns,
		.orphan_starts = from->orphan_starts,
		.orphan_stops = from->orphan_stops,
		.map_full = from->collisions,
	};
	memcpy(to->buckets, from->buckets, sizeof(to->buckets));
}

/* Another tool may have changed sites meanwhile. Numbers that are too small are not told silently. */
static void warn_of_changes(struct engine *engine)
{
	struct inside_state state = { 0 };

	if (engine->has_warned || engine->is_detached ||
	    inside_state(engine->inside, &state) != 0 || state.n_patched >= engine->n_sites)
		return;
	engine->has_warned = true;
	ctx_log(engine->ctx, OCP_LOG_WARN,
		"pid %d: %zu of %zu site%s not counted now, because another program has changed "
		"them: hits are missing",
		(int)engine->pid, engine->n_sites - state.n_patched, engine->n_sites,
		engine->n_sites == 1 ? " is" : "s are");
}

static int read_engine(struct engine *engine, struct engine_reading *reading)
{
	uint64_t *hits = calloc(engine->n_sites + 1, sizeof(*hits));
	struct inside_pair *pairs = calloc(engine->n_pairs + 1, sizeof(*pairs));
	int err = hits && pairs ? 0 : ctx_no_memory(engine->ctx);

	if (!err && engine->inside)
		err = inside_read(engine->inside, hits, pairs);
	if (!err && engine->inside)
		warn_of_changes(engine);
	for (size_t i = 0; !err && i < engine->n_sites; i++)
		reading->hits[engine->numbers[i]] = hits[i];
	for (size_t i = 0; !err && i < engine->n_pairs; i++)
		take_pair(&pairs[i], &reading->pairs[i]);
	free(hits);
	free(pairs);
	return err;
}

static bool process_has_ended(const struct engine *engine)
{
	uint64_t start_time;

	return proc_start_time(engine->pid, &start_time) != 0 || start_time != engine->start_time;
}

/* A child has copies of the sites, and shares the block, which tells when it was made. */
static bool detach_child(struct engine *engine, pid_t pid)
{
	struct inside_state state = { 0 };
	uint64_t start_time;
	struct inside *child;
	bool is_ours = pid != engine->pid && inside_find(engine->ctx, pid, &child) > 0;

	if (!is_ours)
		return false;
	is_ours = inside_start_ns(child) == inside_start_ns(engine->inside) &&
		  inside_n_sites(child) == inside_n_sites(engine->inside) &&
		  inside_state(child, &state) == 0 && state.n_patched + state.n_switched;
	if (is_ours && inside_detach(child) != 0) {
		if (proc_start_time(pid, &start_time) == 0)
			ctx_log(engine->ctx, OCP_LOG_WARN, "%s", ocp_error(engine->ctx));
		is_ours = false;
	}
	inside_close(child);
	return is_ours;
}

/* Children that have not executed another program. Those that they fork meanwhile are found again. */
static void detach_children(struct engine *engine)
{
	bool found_one = true;

	for (int i = 0; found_one && i < MAX_CHILD_ROUNDS; i++) {
		struct find_memory memory = { 0 };
		struct found_processes found = { 0 };

		found_one = false;
		if (find_processes(engine->ctx, &engine->exe, engine->base, &memory, &found) != 0)
			ctx_log(engine->ctx, OCP_LOG_WARN, "%s", ocp_error(engine->ctx));
		for (size_t j = 0; j < found.n; j++)
			found_one |= detach_child(engine, found.pids[j]);
		found_processes_free(&found);
		find_memory_free(&memory);
	}
}

static int detach(struct engine *engine)
{
	int err;

	if (!engine->inside || engine->is_detached)
		return 0;
	warn_of_changes(engine);
	/* What was found may be a copy of what this process has: it ends last. */
	if (engine->is_found)
		detach_children(engine);
	err = inside_detach(engine->inside);
	/* What was counted before can be read all the same. */
	if (err && process_has_ended(engine)) {
		err = 0;
	} else if (err == -ESRCH) {
		ctx_log(engine->ctx, OCP_LOG_WARN, "%s", ocp_error(engine->ctx));
		err = 0;
	}
	if (err)
		return err;
	engine->is_detached = true;
	detach_children(engine);
	return 0;
}

static void close_engine(struct engine *engine)
{
	if (!engine)
		return;
	if (!engine->is_found && !engine->is_kept && detach(engine))
		ctx_log(engine->ctx, OCP_LOG_WARN,
			"%s; it counts on: ocaml-probes doctor -pid %d -fix restores its sites",
			ocp_error(engine->ctx), (int)engine->pid);
	inside_close(engine->inside);
	free(engine->meta.text);
	free(engine->numbers);
	free(engine->roles);
	free(engine);
}

/* ---- engines that go on --------------------------------------------------------------------- */

static int keep(struct engine *engine, const char *folder)
{
	(void)folder;
	engine->is_kept = true;
	return 0;
}

int engine_inside_open_found(struct ocp_ctx *ctx, pid_t pid, struct inside *inside,
			     uint32_t *numbers, struct engine **out)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	int err;

	*out = NULL;
	if (!engine) {
		inside_close(inside);
		free(numbers);
		return ctx_no_memory(ctx);
	}
	*engine = (struct engine){
		.ctx = ctx,
		.inside = inside,
		.numbers = numbers,
		.n_sites = inside_n_sites(inside),
		.n_pairs = inside_n_pairs(inside),
		.is_found = true,
	};
	err = know_process(engine, pid);
	if (err)
		close_engine(engine);
	else
		*out = engine;
	return err;
}

bool engine_inside_counts_in(const struct engine *engine, pid_t pid)
{
	return engine->inside && !engine->is_detached && inside_is_in(engine->inside, pid);
}

/* ---- the rest of the interface -------------------------------------------------------------- */

static int check(struct ocp_ctx *ctx)
{
	(void)ctx;
	return 0;
}

/* Counting takes a tenth of what timing takes. */
static int costs(struct ocp_ctx *ctx, const struct engine_spec *spec, struct ocp_costs *costs)
{
	struct own_cost counting, timing = { 0 };
	int err = own_cost_measure(ctx, false, 0, &counting);

	if (!err && spec->n_pairs)
		err = own_cost_measure(ctx, true, spec->depth, &timing);
	*costs = (struct ocp_costs){ .cost_per_hit_ns = counting.hit_ns,
				     .cost_per_paired_hit_ns = timing.hit_ns,
				     .empty_pair_ns = timing.empty_pair_ns };
	return err;
}

static int switch_sites(struct engine *engine, const struct engine_file *file)
{
	return ctx_error(engine->ctx, -ENOTSUP,
			 "%s: the engine `inside` counts all probes until its end", file->name);
}

static void give_up(struct engine *engine, size_t first, size_t n, uint64_t *hits)
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

static int forget(struct engine *engine, engine_ended_fn has_ended, void *data,
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
	.costs = costs,
	.check = check,
	.open = open_engine,
	.attach = attach,
	.switch_sites = switch_sites,
	.give_up = give_up,
	.unlist = unlist,
	.read = read_engine,
	.forget = forget,
	.detach = detach,
	.close = close_engine,
	.describe = describe,
	.keep = keep,
};

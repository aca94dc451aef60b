// SPDX-License-Identifier: MIT
/*
 * A counter: probes by name on one side, an engine's numbered sites on the other.
 *
 * The sites of the chosen probes are sorted into targets, one an image (the kernel wants one file a
 * link), and the engine numbers them through. column[] says to which probe each number belongs, so
 * that reading is one pass over the engine's counts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "count/engine.h"
#include "process/maps.h"
#include "process/process.h"

enum { FD_PATH_BYTES = 32 };

struct ocp_counter {
	struct ocp_ctx *ctx;
	struct ocp_process *proc;
	const struct engine_ops *ops;
	struct engine *engine;

	size_t *probes; /* the chosen ones, as numbered in proc->live */
	size_t n_probes;

	struct engine_target *targets;
	char (*paths)[FD_PATH_BYTES];
	size_t n_targets;
	struct engine_site *sites;
	uint32_t *column; /* of each site: index into probes[] */
	uint64_t *site_hits;
	size_t n_sites;
};

static int compare_sizes(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return x < y ? -1 : x > y;
}

static int choose_probes(struct ocp_counter *c, const char *const *names, size_t n)
{
	const struct live *live = &c->proc->live;

	c->probes = calloc((n ? n : live->n_probes) + 1, sizeof(*c->probes));
	if (!c->probes)
		return ctx_no_memory(c->ctx);
	for (size_t i = 0; i < n; i++) {
		ptrdiff_t probe = live_find_probe(live, names[i]);

		if (probe < 0)
			return ctx_error(c->ctx, -ENOENT, "probe '%s': no such probe in %s",
					 names[i], c->proc->images.exe_path);
		c->probes[c->n_probes++] = (size_t)probe;
	}
	for (size_t i = 0; !n && i < live->n_probes; i++)
		c->probes[c->n_probes++] = i;
	qsort(c->probes, c->n_probes, sizeof(*c->probes), compare_sizes);
	for (size_t i = 1; i < c->n_probes; i++)
		if (c->probes[i] == c->probes[i - 1])
			return ctx_error(c->ctx, -EINVAL, "probe '%s': named twice",
					 live->probes[c->probes[i]].name);
	return 0;
}

static size_t count_sites(const struct ocp_counter *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_probes; i++) {
		const struct live_probe *probe = &c->proc->live.probes[c->probes[i]];

		n += probe->n_sites;
		if (probe->n_sites == 0)
			ctx_log(c->ctx, OCP_LOG_WARN,
				"probe '%s': the compiler left its sites out, it cannot be counted",
				probe->name);
	}
	return n;
}

static int resolve_site(const struct ocp_counter *c, const struct live_site *live_site,
			struct engine_site *site)
{
	const struct image *image = &c->proc->images.images[live_site->image];
	const struct elf_file *elf = image->prog->elf;

	*site = (struct engine_site){ 0 };
	if (!elf_file_va_to_off(elf, live_site->site->va, &site->nop_off))
		return ctx_error(c->ctx, -EBADMSG, "%s: a site has no byte in the file",
				 image->path);
	/* A semaphore in .bss has none either: the kernel cannot find it, so it is not asked to. */
	if (live_site->site->tracer_semaphore_va &&
	    !elf_file_va_to_off(elf, live_site->site->tracer_semaphore_va, &site->ref_ctr_off))
		site->ref_ctr_off = 0;
	return 0;
}

/* Add the sites of image IMAGE as one target. */
static int add_target(struct ocp_counter *c, uint32_t image)
{
	const struct live *live = &c->proc->live;
	size_t first = c->n_sites;
	int err = 0;

	for (size_t i = 0; i < c->n_probes; i++) {
		const struct live_probe *probe = &live->probes[c->probes[i]];

		for (size_t j = 0; !err && j < probe->n_sites; j++) {
			const struct live_site *site = &live->sites[probe->first_site + j];

			if (site->image != image)
				continue;
			err = resolve_site(c, site, &c->sites[c->n_sites]);
			c->column[c->n_sites++] = (uint32_t)i;
		}
	}
	if (err || c->n_sites == first)
		return err;
	snprintf(c->paths[c->n_targets], FD_PATH_BYTES, "/proc/self/fd/%d",
		 c->proc->images.images[image].prog->fd);
	c->targets[c->n_targets] = (struct engine_target){
		.pid = c->proc->pid,
		.path = c->paths[c->n_targets],
		.sites = c->sites + first,
		.n_sites = c->n_sites - first,
	};
	c->n_targets++;
	return 0;
}

/*
 * The kernel puts uprobes into mappings that are not writable only (valid_vma() in
 * kernel/events/uprobes.c) and passes over the others in silence: we do not.
 */
static int warn_of_writable_code(const struct ocp_counter *c)
{
	const struct live *live = &c->proc->live;
	size_t n = 0;
	struct maps maps;
	int err = maps_read(c->ctx, c->proc->pid, &maps);

	if (err)
		return err;
	for (size_t i = 0; i < c->n_probes; i++) {
		const struct live_probe *probe = &live->probes[c->probes[i]];

		for (size_t j = 0; j < probe->n_sites; j++) {
			const struct mapping *m =
				maps_find(&maps, live->sites[probe->first_site + j].addr);

			n += m && m->writable;
		}
	}
	maps_free(&maps);
	if (n)
		ctx_log(c->ctx, OCP_LOG_WARN,
			"pid %d: %zu of %zu sites are in memory that is writable now, where the kernel "
			"does not count: their hits are missing",
			(int)c->proc->pid, n, c->n_sites);
	return 0;
}

static int make_targets(struct ocp_counter *c)
{
	size_t n_sites = count_sites(c), n_images = c->proc->images.n;
	int err = 0;

	c->targets = calloc(n_images + 1, sizeof(*c->targets));
	c->paths = calloc(n_images + 1, sizeof(*c->paths));
	c->sites = calloc(n_sites + 1, sizeof(*c->sites));
	c->column = calloc(n_sites + 1, sizeof(*c->column));
	c->site_hits = calloc(n_sites + 1, sizeof(*c->site_hits));
	if (!c->targets || !c->paths || !c->sites || !c->column || !c->site_hits)
		return ctx_no_memory(c->ctx);
	for (size_t i = 0; !err && i < n_images; i++)
		err = add_target(c, (uint32_t)i);
	if (!err && c->n_sites == 0)
		err = ctx_error(c->ctx, -ENOENT, "pid %d (%s): no probe sites to count",
				(int)c->proc->pid, c->proc->images.exe_path);
	return err;
}

int ocp_counter_open(struct ocp_process *proc, const char *const *names, size_t n,
		     struct ocp_counter **out)
{
	struct ocp_counter *c = calloc(1, sizeof(*c));
	int err;

	*out = NULL;
	if (!c)
		return ctx_no_memory(proc->ctx);
	c->ctx = proc->ctx;
	c->proc = proc;
	c->ops = &engine_bpf;
	err = choose_probes(c, names, n);
	if (!err)
		err = make_targets(c);
	if (!err)
		err = warn_of_writable_code(c);
	if (!err)
		err = c->ops->open(c->ctx, c->targets, c->n_targets, &c->engine);
	if (err) {
		ocp_counter_free(c);
		return err;
	}
	*out = c;
	return 0;
}

void ocp_counter_free(struct ocp_counter *counter)
{
	if (!counter)
		return;
	counter->ops->close(counter->engine);
	free(counter->probes);
	free(counter->targets);
	free(counter->paths);
	free(counter->sites);
	free(counter->column);
	free(counter->site_hits);
	free(counter);
}

size_t ocp_counter_probe_count(const struct ocp_counter *counter)
{
	return counter->n_probes;
}

const char *ocp_counter_probe_name(const struct ocp_counter *counter, size_t probe)
{
	return counter->proc->live.probes[counter->probes[probe]].name;
}

size_t ocp_counter_site_count(const struct ocp_counter *counter)
{
	return counter->n_sites;
}

int ocp_counter_attach(struct ocp_counter *counter)
{
	return counter->ops->attach(counter->engine);
}

int ocp_counter_read(struct ocp_counter *counter, uint64_t *hits)
{
	int err = counter->ops->read(counter->engine, counter->site_hits);

	if (err)
		return err;
	memset(hits, 0, counter->n_probes * sizeof(*hits));
	for (size_t i = 0; i < counter->n_sites; i++)
		hits[counter->column[i]] += counter->site_hits[i];
	return 0;
}

int ocp_counter_detach(struct ocp_counter *counter)
{
	return counter->ops->detach(counter->engine);
}

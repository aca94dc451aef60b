// SPDX-License-Identifier: MIT
#include "process/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One probe of one image: what is merged by name. */
struct part {
	const char *name;
	uint32_t image;
	const struct probe *probe;
};

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->image > y->image) - (x->image < y->image);
}

static int compare_semaphores(const void *a, const void *b)
{
	const struct live_semaphore *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Add the sites and semaphores of one image's probe to the live probe at the end of the arrays. */
static void add_part(const struct image_list *images, const struct part *part, struct live *live,
		     struct live_probe *probe)
{
	const struct image *image = &images->images[part->image];
	const struct site *sites = image->prog->sites + part->probe->first_site;

	for (size_t i = 0; i < part->probe->n_sites; i++) {
		uint64_t semaphore_addr = image->bias + sites[i].semaphore_va;
		struct live_semaphore *last = live->semaphores + live->n_semaphores - 1;

		if (sites[i].has_code) {
			live->sites[live->n_sites++] = (struct live_site){
				.addr = image->bias + sites[i].va,
				.site = &sites[i],
				.image = part->image,
			};
			probe->n_sites++;
		}
		/* Mostly the same one as the site before: unique_semaphores sees to the rest. */
		if (probe->n_semaphores && last->addr == semaphore_addr)
			continue;
		live->semaphores[live->n_semaphores++].addr = semaphore_addr;
		probe->n_semaphores++;
	}
}

static void unique_semaphores(struct live *live, struct live_probe *probe)
{
	struct live_semaphore *s = live->semaphores + probe->first_semaphore;
	size_t kept = 1;

	if (probe->n_semaphores < 2)
		return;
	qsort(s, probe->n_semaphores, sizeof(*s), compare_semaphores);
	for (size_t i = 1; i < probe->n_semaphores; i++)
		if (s[i].addr != s[kept - 1].addr)
			s[kept++] = s[i];
	live->n_semaphores -= probe->n_semaphores - kept;
	probe->n_semaphores = kept;
}

static void merge_parts(const struct image_list *images, const struct part *parts, size_t n_parts,
			struct live *live)
{
	for (size_t i = 0; i < n_parts;) {
		struct live_probe *probe = &live->probes[live->n_probes++];
		const char *name = parts[i].name;

		*probe = (struct live_probe){
			.name = name,
			.first_site = live->n_sites,
			.first_semaphore = live->n_semaphores,
		};
		for (; i < n_parts && strcmp(parts[i].name, name) == 0; i++)
			add_part(images, &parts[i], live, probe);
		unique_semaphores(live, probe);
	}
}

int live_make(struct ocp_ctx *ctx, const struct image_list *images, struct live *live)
{
	size_t n_parts = 0, n_sites = 0;
	struct part *parts;

	*live = (struct live){ 0 };
	for (size_t i = 0; i < images->n; i++) {
		n_parts += images->images[i].prog->n_probes;
		n_sites += images->images[i].prog->n_sites;
	}
	parts = calloc(n_parts + 1, sizeof(*parts));
	live->probes = calloc(n_parts + 1, sizeof(*live->probes));
	live->sites = calloc(n_sites + 1, sizeof(*live->sites));
	live->semaphores = calloc(n_sites + 1, sizeof(*live->semaphores));
	if (!parts || !live->probes || !live->sites || !live->semaphores) {
		free(parts);
		live_free(live);
		return ctx_no_memory(ctx);
	}
	n_parts = 0;
	for (size_t i = 0; i < images->n; i++) {
		const struct ocp_program *prog = images->images[i].prog;

		for (size_t j = 0; j < prog->n_probes; j++)
			parts[n_parts++] = (struct part){
				.name = prog->probes[j].name,
				.image = (uint32_t)i,
				.probe = &prog->probes[j],
			};
	}
	/* One image's probes are sorted already. */
	if (images->n > 1)
		qsort(parts, n_parts, sizeof(*parts), compare_parts);
	merge_parts(images, parts, n_parts, live);
	free(parts);
	return 0;
}

void live_free(struct live *live)
{
	free(live->probes);
	free(live->sites);
	free(live->semaphores);
	*live = (struct live){ 0 };
}

static int compare_name(const void *key, const void *probe)
{
	return strcmp(key, ((const struct live_probe *)probe)->name);
}

ptrdiff_t live_find_probe(const struct live *live, const char *name)
{
	const struct live_probe *found = NULL;

	if (live->n_probes)
		found = bsearch(name, live->probes, live->n_probes, sizeof(*found), compare_name);
	return found ? found - live->probes : -1;
}

int snapshot_read(struct ocp_ctx *ctx, const struct memory *memory, const struct live *live,
		  struct snapshot *snapshot)
{
	size_t n = live->n_sites > live->n_semaphores ? live->n_sites : live->n_semaphores;
	struct memory_piece *pieces = calloc(n + 1, sizeof(*pieces));
	int err = 0;

	snapshot->code = calloc(live->n_sites + 1, sizeof(*snapshot->code));
	snapshot->semaphores = calloc(live->n_semaphores + 1, sizeof(*snapshot->semaphores));
	if (!pieces || !snapshot->code || !snapshot->semaphores)
		err = ctx_no_memory(ctx);
	for (size_t i = 0; !err && i < live->n_sites; i++)
		pieces[i] =
			(struct memory_piece){ .addr = live->sites[i].addr, .bytes = SITE_BYTES };
	if (!err)
		err = memory_read(memory, pieces, live->n_sites, snapshot->code);
	for (size_t i = 0; !err && i < live->n_semaphores; i++)
		pieces[i] = (struct memory_piece){ .addr = live->semaphores[i].addr,
						   .bytes = sizeof(uint16_t) };
	if (!err)
		err = memory_read(memory, pieces, live->n_semaphores, snapshot->semaphores);
	free(pieces);
	if (err)
		snapshot_free(snapshot);
	return err;
}

void snapshot_free(struct snapshot *snapshot)
{
	free(snapshot->code);
	free(snapshot->semaphores);
	*snapshot = (struct snapshot){ 0 };
}

/* A piece for every run of sites, and for every semaphore, of the probes. */
static size_t count_pieces(const struct live *live, const size_t *probes, size_t n, size_t *bytes)
{
	size_t pieces = 0;

	*bytes = 0;
	for (size_t i = 0; i < n; i++) {
		const struct live_probe *p = &live->probes[probes[i]];

		pieces += p->n_sites + p->n_semaphores;
		*bytes += p->n_sites * SITE_BYTES + p->n_semaphores * sizeof(uint16_t);
	}
	return pieces;
}

static void fill_pieces(const struct live *live, const size_t *probes, size_t n,
			struct memory_piece *pieces)
{
	for (size_t i = 0; i < n; i++) {
		const struct live_probe *p = &live->probes[probes[i]];

		for (size_t j = 0; j < p->n_sites; j++)
			*pieces++ =
				(struct memory_piece){ .addr = live->sites[p->first_site + j].addr,
						       .bytes = SITE_BYTES };
		for (size_t j = 0; j < p->n_semaphores; j++)
			*pieces++ = (struct memory_piece){
				.addr = live->semaphores[p->first_semaphore + j].addr,
				.bytes = sizeof(uint16_t)
			};
	}
}

/* Take one probe's bytes from AT into the snapshot. Returns what comes after them. */
static const uint8_t *take_probe(const struct live_probe *p, const uint8_t *at,
				 struct snapshot *snapshot, bool *changed)
{
	size_t semaphore_bytes = p->n_semaphores * sizeof(*snapshot->semaphores);

	for (size_t i = 0; i < p->n_sites; i++, at += SITE_BYTES) {
		uint8_t *code = snapshot->code[p->first_site + i];

		*changed |= memcmp(code + SITE_OPCODE_OFF, at + SITE_OPCODE_OFF,
				   SITE_BYTES - SITE_OPCODE_OFF) != 0;
		memcpy(code, at, SITE_BYTES);
	}
	*changed |= memcmp(snapshot->semaphores + p->first_semaphore, at, semaphore_bytes) != 0;
	memcpy(snapshot->semaphores + p->first_semaphore, at, semaphore_bytes);
	return at + semaphore_bytes;
}

int snapshot_refresh(struct ocp_ctx *ctx, const struct memory *memory, const struct live *live,
		     const size_t *probes, size_t n, struct snapshot *snapshot, bool *changed)
{
	size_t n_bytes, n_pieces = count_pieces(live, probes, n, &n_bytes);
	struct memory_piece *pieces = calloc(n_pieces + 1, sizeof(*pieces));
	uint8_t *bytes = malloc(n_bytes + 1);
	const uint8_t *at = bytes;
	int err = 0;

	*changed = false;
	if (!pieces || !bytes) {
		err = ctx_no_memory(ctx);
	} else {
		fill_pieces(live, probes, n, pieces);
		err = memory_read(memory, pieces, n_pieces, bytes);
	}
	for (size_t i = 0; !err && i < n; i++)
		at = take_probe(&live->probes[probes[i]], at, snapshot, changed);
	free(pieces);
	free(bytes);
	return err;
}

enum ocp_state snapshot_state(const struct live *live, const struct snapshot *snapshot,
			      size_t probe)
{
	const struct live_probe *p = &live->probes[probe];
	size_t on = 0, off = 0;

	for (size_t i = 0; i < p->n_semaphores; i++)
		*(snapshot->semaphores[p->first_semaphore + i] ? &on : &off) += 1;
	for (size_t i = 0; i < p->n_sites; i++)
		*(snapshot->code[p->first_site + i][SITE_OPCODE_OFF] == SITE_ON ? &on : &off) += 1;
	if (on && off)
		return OCP_MIXED;
	return on ? OCP_ENABLED : OCP_DISABLED;
}

// SPDX-License-Identifier: MIT
#include "process/process_probes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/populate.h"
#include "base/search.h"

/* One probe of one image. The parts with the same name form one live probe. */
struct part {
	const char *name;
	uint32_t image;
	const struct probe *probe;
};

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : COMPARE(x->image, y->image);
}

static int compare_semaphores(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return COMPARE(*x, *y);
}

/* Add the sites and semaphores of one image's probe to the live probe at the end of the arrays. */
static void add_part(const struct image_list *images, const struct part *part, struct live *live,
		     struct live_probe *probe)
{
	const struct image *image = &images->images[part->image];
	const struct site *sites = image->prog->sites + part->probe->first_site;

	for (size_t i = 0; i < part->probe->n_sites; i++) {
		uint64_t semaphore_addr = image->bias + sites[i].semaphore_va;

		if (sites[i].has_code) {
			live->sites[live->n_sites++] = (struct live_site){
				.addr = image->bias + sites[i].va,
				.site = &sites[i],
				.image = part->image,
				.probe = (uint32_t)(probe - live->probes),
				.code_at = (uint32_t)live->n_code_bytes,
			};
			live->n_code_bytes += sites[i].n_bytes;
			probe->n_sites++;
		}
		/*
		 * Often the previous site has the same semaphore. unique_semaphores() removes the
		 * other duplicates.
		 */
		if (!sites[i].semaphore_va ||
		    (probe->n_semaphores &&
		     live->semaphores[live->n_semaphores - 1] == semaphore_addr))
			continue;
		live->semaphores[live->n_semaphores++] = semaphore_addr;
		probe->n_semaphores++;
	}
}

static void unique_semaphores(struct live *live, struct live_probe *probe)
{
	uint64_t *s = live->semaphores + probe->first_semaphore;
	size_t kept = 1;

	if (probe->n_semaphores < 2)
		return;
	qsort(s, probe->n_semaphores, sizeof(*s), compare_semaphores);
	for (size_t i = 1; i < probe->n_semaphores; i++)
		if (s[i] != s[kept - 1])
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

	*live = (struct live){ .images = images };
	for (size_t i = 0; i < images->n; i++) {
		n_parts += images->images[i].prog->n_probes;
		n_sites += images->images[i].prog->n_sites;
	}
	parts = calloc(n_parts + 1, sizeof(*parts));
	live->probes = calloc(n_parts + 1, sizeof(*live->probes));
	live->sites = populated_calloc(n_sites + 1, sizeof(*live->sites));
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
	/* The probes of one image are sorted already. */
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

static int compare_live_probe_name(const void *key, const void *probe)
{
	return strcmp(key, ((const struct live_probe *)probe)->name);
}

ptrdiff_t live_find_probe(const struct live *live, const char *name)
{
	const struct live_probe *found = NULL;

	if (live->n_probes)
		found = bsearch(name, live->probes, live->n_probes, sizeof(*found),
				compare_live_probe_name);
	return found ? found - live->probes : -1;
}

/* ---- trampolines ---------------------------------------------------------------------------- */

static const struct elf_file *elf_of(const struct live *live, const struct live_site *site)
{
	return live->images->images[site->image].prog->elf;
}

/*
 * Return the place in SNAPSHOT of the value of PROBE's semaphore that is at ADDR in the process, or
 * NULL if PROBE has no semaphore there.
 */
static const uint16_t *semaphore_at(const struct snapshot *snapshot, const struct live_probe *probe,
				    uint64_t addr)
{
	size_t end = probe->first_semaphore + probe->n_semaphores;

	for (size_t i = probe->first_semaphore; i < end; i++)
		if (snapshot->live->semaphores[i] == addr)
			return &snapshot->semaphores[i];
	return NULL;
}

const struct trampoline *snapshot_trampoline(const struct snapshot *snapshot,
					     const struct live_site *site)
{
	const struct trampoline *t = trampolines_find(&snapshot->trampolines, site->site,
						      site->addr, snapshot_code(snapshot, site));

	/*
	 * If the gate is a semaphore, it must be a semaphore of the site's own probe: switching the
	 * site writes only these semaphores.
	 */
	if (t && !t->has_private_gate &&
	    !semaphore_at(snapshot, &snapshot->live->probes[site->probe], t->gate_addr))
		return NULL;
	return t;
}

enum site_form snapshot_form(const struct snapshot *snapshot, const struct live_site *site)
{
	const struct trampoline *t = snapshot_trampoline(snapshot, site);
	const uint8_t *code = snapshot_code(snapshot, site);
	uint16_t gate;

	if (!t)
		return site_form(elf_of(snapshot->live, site), site->site, code);
	gate = t->has_private_gate ? t->gate
				   : *semaphore_at(snapshot, &snapshot->live->probes[site->probe],
						   t->gate_addr);
	return trampoline_site_form(site->site, code, gate);
}

/* Return true if any site calls code outside of its program. */
static bool leads_out(const struct snapshot *snapshot)
{
	const struct live *live = snapshot->live;

	for (size_t i = 0; i < live->n_sites; i++)
		if (site_form(elf_of(live, &live->sites[i]), live->sites[i].site,
			      snapshot_code(snapshot, &live->sites[i])) == SITE_FORM_WRAPPER)
			return true;
	return false;
}

/*
 * Read the trampolines of SNAPSHOT again. Set *CHANGED to true if any trampoline or gate has
 * changed.
 */
static int read_trampolines(struct ocp_ctx *ctx, const struct memory *memory,
			    struct snapshot *snapshot, bool *changed)
{
	struct trampolines found = { 0 };
	int err;

	snapshot->leads_out = leads_out(snapshot);
	err = snapshot->leads_out ? trampolines_read(ctx, memory, &found) : 0;
	if (err)
		return err;
	*changed |= !trampolines_equal(&found, &snapshot->trampolines);
	trampolines_free(&snapshot->trampolines);
	snapshot->trampolines = found;
	return 0;
}

/* ---- snapshots ------------------------------------------------------------------------------ */

static int read_snapshot_once(struct ocp_ctx *ctx, const struct memory *memory,
			      const struct live *live, struct snapshot *snapshot)
{
	size_t n = live->n_sites > live->n_semaphores ? live->n_sites : live->n_semaphores;
	struct memory_piece *pieces = calloc(n + 1, sizeof(*pieces));
	bool changed = false;
	int err = 0;

	*snapshot = (struct snapshot){ .live = live };
	snapshot->code = calloc(live->n_code_bytes + 1, 1);
	snapshot->semaphores = calloc(live->n_semaphores + 1, sizeof(*snapshot->semaphores));
	if (!pieces || !snapshot->code || !snapshot->semaphores)
		err = ctx_no_memory(ctx);
	for (size_t i = 0; !err && i < live->n_sites; i++)
		pieces[i] = (struct memory_piece){ .addr = live->sites[i].addr,
						   .bytes = live->sites[i].site->n_bytes };
	if (!err)
		err = memory_read(memory, pieces, live->n_sites, snapshot->code);
	for (size_t i = 0; !err && i < live->n_semaphores; i++)
		pieces[i] = (struct memory_piece){ .addr = live->semaphores[i],
						   .bytes = sizeof(uint16_t) };
	if (!err)
		err = memory_read(memory, pieces, live->n_semaphores, snapshot->semaphores);
	if (!err)
		err = read_trampolines(ctx, memory, snapshot, &changed);
	free(pieces);
	if (err)
		snapshot_free(snapshot);
	return err;
}

/*
 * Return true if a site calls a trampoline that was not found, or any other place outside of the
 * code of its program.
 */
static bool has_lost_site(const struct snapshot *snapshot)
{
	const struct live *live = snapshot->live;

	for (size_t i = 0; snapshot->leads_out && i < live->n_sites; i++)
		if (snapshot_form(snapshot, &live->sites[i]) == SITE_FORM_WRAPPER)
			return true;
	return false;
}

/*
 * While the process runs, a tool may stop counting inside the process: it restores the sites and
 * then removes the trampolines. If it does so after the sites were read here and before the
 * trampolines are read, the trampolines of some sites are not found: read both again.
 */
int snapshot_read(struct ocp_ctx *ctx, const struct memory *memory, const struct live *live,
		  struct snapshot *snapshot)
{
	enum { TRIES_WITHOUT = 3, TRIES = 100, WAIT_US = 1000 };
	int err = read_snapshot_once(ctx, memory, live, snapshot);

	for (int i = 1; !err && i < TRIES && has_lost_site(snapshot); i++) {
		/* As long as there are trampolines, the tool may still be restoring sites: wait. */
		if (snapshot->trampolines.n)
			usleep(WAIT_US);
		else if (i == TRIES_WITHOUT)
			break;
		snapshot_free(snapshot);
		err = read_snapshot_once(ctx, memory, live, snapshot);
	}
	return err;
}

void snapshot_free(struct snapshot *snapshot)
{
	free(snapshot->code);
	free(snapshot->semaphores);
	trampolines_free(&snapshot->trampolines);
	*snapshot = (struct snapshot){ 0 };
}

/* The two kinds of memory in a snapshot. */
enum part_kind { PART_CODE, PART_SEMAPHORES };

/*
 * Fill PIECES with the pieces of memory of PROBES[0..N), either the sites or the semaphores. If
 * PIECES is NULL, only count. Returns the number of pieces; *N_BYTES is their total size.
 */
static size_t fill_pieces(const struct live *live, const size_t *probes, size_t n,
			  enum part_kind kind, struct memory_piece *pieces, size_t *n_bytes)
{
	size_t n_pieces = 0;

	*n_bytes = 0;
	for (size_t i = 0; i < n; i++) {
		const struct live_probe *p = &live->probes[probes[i]];
		size_t count = kind == PART_CODE ? p->n_sites : p->n_semaphores;

		for (size_t j = 0; j < count; j++) {
			struct memory_piece piece = { .bytes = sizeof(uint16_t) };

			if (kind == PART_CODE) {
				piece.addr = live->sites[p->first_site + j].addr;
				piece.bytes = live->sites[p->first_site + j].site->n_bytes;
			} else {
				piece.addr = live->semaphores[p->first_semaphore + j];
			}
			*n_bytes += piece.bytes;
			if (pieces)
				pieces[n_pieces] = piece;
			n_pieces++;
		}
	}
	return n_pieces;
}

/*
 * Copy BYTES, the new bytes of the sites of P, into the snapshot. Set *CHANGED to true if they
 * differ from the old bytes; the first byte of a site does not count, since a uprobe may put an
 * int3 there. Return the number of bytes copied.
 */
static size_t take_code(const struct live_probe *p, const uint8_t *bytes, struct snapshot *snapshot,
			bool *changed)
{
	const struct live *live = snapshot->live;
	const uint8_t *from = bytes;

	for (size_t i = 0; i < p->n_sites; i++) {
		const struct live_site *site = &live->sites[p->first_site + i];
		uint8_t *code = snapshot->code + site->code_at;
		size_t n = site->site->n_bytes;

		*changed |= memcmp(code + 1, from + 1, n - 1) != 0;
		memcpy(code, from, n);
		from += n;
	}
	return (size_t)(from - bytes);
}

static bool take_semaphores(const struct live_probe *p, const uint8_t *bytes,
			    struct snapshot *snapshot)
{
	uint16_t *semaphores = snapshot->semaphores + p->first_semaphore;
	size_t n_bytes = p->n_semaphores * sizeof(*semaphores);
	bool changed = memcmp(semaphores, bytes, n_bytes) != 0;

	memcpy(semaphores, bytes, n_bytes);
	return changed;
}

static int refresh(struct ocp_ctx *ctx, const struct memory *memory, const size_t *probes, size_t n,
		   enum part_kind kind, struct snapshot *snapshot, bool *changed)
{
	const struct live *live = snapshot->live;
	size_t n_bytes, n_pieces = fill_pieces(live, probes, n, kind, NULL, &n_bytes);
	struct memory_piece *pieces = calloc(n_pieces + 1, sizeof(*pieces));
	uint8_t *bytes = malloc(n_bytes + 1);
	const uint8_t *at = bytes;
	int err = 0;

	*changed = false;
	if (pieces && bytes) {
		fill_pieces(live, probes, n, kind, pieces, &n_bytes);
		err = memory_read(memory, pieces, n_pieces, bytes);
	} else {
		err = ctx_no_memory(ctx);
	}
	for (size_t i = 0; !err && i < n; i++) {
		const struct live_probe *p = &live->probes[probes[i]];

		if (kind == PART_CODE) {
			at += take_code(p, at, snapshot, changed);
		} else {
			*changed |= take_semaphores(p, at, snapshot);
			at += p->n_semaphores * sizeof(uint16_t);
		}
	}
	free(pieces);
	free(bytes);
	return err;
}

int snapshot_refresh_code(struct ocp_ctx *ctx, const struct memory *memory, const size_t *probes,
			  size_t n, struct snapshot *snapshot, bool *changed)
{
	int err = refresh(ctx, memory, probes, n, PART_CODE, snapshot, changed);

	if (!err && (*changed || snapshot->leads_out))
		err = read_trampolines(ctx, memory, snapshot, changed);
	return err;
}

int snapshot_refresh_semaphores(struct ocp_ctx *ctx, const struct memory *memory,
				const size_t *probes, size_t n, struct snapshot *snapshot,
				bool *changed)
{
	return refresh(ctx, memory, probes, n, PART_SEMAPHORES, snapshot, changed);
}

uint16_t snapshot_count(const struct snapshot *snapshot, size_t probe)
{
	const struct live *live = snapshot->live;
	const struct live_probe *p = &live->probes[probe];
	const uint16_t *semaphores = snapshot->semaphores + p->first_semaphore;
	uint16_t highest = 0;

	if (!p->n_semaphores)
		return snapshot_state(snapshot, probe) == OCP_ENABLED;
	for (size_t i = 0; i < p->n_semaphores; i++)
		if (semaphores[i] > highest)
			highest = semaphores[i];
	return highest;
}

/*
 * Return true if SITE is on. For a site without a trampoline the opcode alone decides, even if the
 * site has a defect.
 */
static bool is_on(const struct snapshot *snapshot, const struct live_site *site)
{
	if (snapshot_opcode(snapshot, site) != site->site->on_opcode)
		return false;
	return !snapshot_trampoline(snapshot, site) ||
	       snapshot_form(snapshot, site) == SITE_FORM_ON;
}

enum ocp_state snapshot_state(const struct snapshot *snapshot, size_t probe)
{
	const struct live *live = snapshot->live;
	const struct live_probe *p = &live->probes[probe];
	size_t on = 0, off = 0;

	for (size_t i = 0; i < p->n_semaphores; i++)
		*(snapshot->semaphores[p->first_semaphore + i] ? &on : &off) += 1;
	for (size_t i = 0; i < p->n_sites; i++) {
		const struct live_site *site = &live->sites[p->first_site + i];

		*(is_on(snapshot, site) ? &on : &off) += 1;
	}
	if (on && off)
		return OCP_MIXED;
	return on ? OCP_ENABLED : OCP_DISABLED;
}

// SPDX-License-Identifier: MIT
/*
 * Makes and closes the links of an engine, also when single sites are switched. At first a file has
 * one link for all its sites. Links cannot be changed, and closing a link takes the kernel about 60
 * ms (an RCU grace period), whatever its number of sites. One link per site or probe would
 * therefore be too slow. Instead:
 *
 *   - Sites that are switched on get a new link.
 *   - A link is closed when all of its sites are switched off.
 *   - If only some sites of a link are switched off, or if a file would have more than
 *     MAX_LINKS_A_FILE links, one new link replaces all links of the file. For the sites that stay
 *     on, this is a handover (bpf/measure.h): no hit is lost or counted twice. Sites that are
 *     switched off may lose some hits meanwhile.
 *
 * Another process that has a descriptor of a closed link keeps the link alive, with its uprobes and
 * raised semaphores. The hits of such a link are not counted: the BPF program looks up in `serials`
 * which link counts a site.
 *
 * There is one handover at a time, for one file, which the gate names. Closing a link waits for
 * running handlers, so no handler of the old link runs when the handover ends.
 *
 * Perf events are one per site, and are simply opened and closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel/link.h"
#include "kernel/uprobe_link.h"
#include "measure/engine/engine_bpf.h"

enum { MAX_LINKS_A_FILE = 8 };

void engine_bpf_set_gate(struct engine *engine, uint32_t open)
{
	if (engine->object.gate)
		__atomic_store_n(&engine->object.gate->open, open, __ATOMIC_SEQ_CST);
}

/* ---- the list of links ---------------------------------------------------------------------- */

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

void engine_bpf_close_links(struct engine *engine, size_t n)
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

int engine_bpf_map_serials(struct engine *engine)
{
	void *serials = mmap(NULL, serials_bytes(engine), PROT_READ | PROT_WRITE, MAP_SHARED,
			     engine->object.serials, 0);

	if (serials == MAP_FAILED)
		return ctx_error(engine->ctx, -errno, "measuring: mapping the serials: %s",
				 strerror(errno));
	engine->serials = serials;
	return 0;
}

void engine_bpf_unmap_serials(struct engine *engine)
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

/* Return the number of the site of UPROBE: see measure_cookie(). */
static uint32_t site_of(const struct uprobe *uprobe)
{
	return (uint32_t)uprobe->cookie;
}

/* List the links FDS, made from SPEC for FILE: a perf event has one site, any other link has all. */
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

/* Make links for the uprobes of SPEC, which are sites of FILE. */
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

/* List the WANTED sites of FILE in SPEC: those at which SPEC has return probes, or the others. */
static void list_uprobes(const struct engine *engine, const struct engine_file *file,
			 const bool *wanted, uint32_t serial, struct uprobe_link_spec *spec)
{
	spec->n = 0;
	for (size_t i = 0; i < file->n_sites; i++) {
		const struct engine_site *site = &file->sites[i];
		const size_t number = file->first_site + i;

		if (wanted[i] && site->is_return == spec->is_return)
			spec->uprobes[spec->n++] = (struct uprobe){
				.off = site->nop_off,
				.ref_ctr_off = site->ref_ctr_off,
				.cookie = measure_cookie(serial, (__u32)number),
				.no_semaphore = engine->no_semaphore[number],
			};
	}
}

/* Make links for the WANTED sites of FILE. Return probes need a separate link. */
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

/* Let the links of SERIAL count the WANTED sites of FILE from now on. */
static void let_count(struct engine *engine, const struct engine_file *file, const bool *wanted,
		      uint32_t serial)
{
	for (size_t i = 0; i < file->n_sites; i++)
		if (wanted[i])
			engine->serials[file->first_site + i] = serial;
}

int engine_bpf_make_links(struct engine *engine, const struct engine_file *file)
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

/* Replace all links of FILE by a new link on the WANTED sites. */
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
	bool *added, *all; /* by site: to switch on; on after the change */
	size_t n_added, n_all;
	size_t *left; /* by link: the number of its sites that stay on */
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
			is_off ? -1 : link_of(engine, first + i, file->sites[i].is_return);

		change->all[i] = !is_off;
		change->added[i] = !is_off && link < 0;
		/*
		 * Ask for the semaphore again: the tracer that prevented it may have left the site.
		 */
		if (change->added[i])
			engine->no_semaphore[first + i] = false;
		change->n_all += !is_off;
		change->n_added += change->added[i];
		if (link >= 0)
			change->left[link]++;
	}
	return 0;
}

/* Return true if a link keeps only some of its sites, or if there are too many links. */
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

int engine_bpf_switch(struct engine *engine, const struct engine_file *file)
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

void engine_bpf_give_up(struct engine *engine, size_t first, size_t n, uint64_t *hits)
{
	for (size_t i = engine->n_links; i-- > 0;)
		if (is_within(&engine->links[i], first, n))
			close_link(engine, i);
	for (size_t i = first; i < first + n && i < engine->max_sites; i++)
		engine->serials[i] = 0;
	if (hits)
		engine_bpf_take_hits(engine, first, n, hits);
}

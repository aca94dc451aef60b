// SPDX-License-Identifier: MIT
#include "change/inside/build.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/populate.h"
#include "change/inside/blocks.h"
#include "change/inside/site_bytes.h"
#include "code/window.h"
#include "code/window_copy.h"
#include "look/memory_copies.h"

static_assert(TEMPLATES_COPY_BYTES >= sizeof((struct window_copy){ 0 }.bytes), "the copy has room");
static_assert((int)TEMPLATES_STACK_BYTES <= (int)WINDOW_STACK_BYTES,
	      "a window has the stack that its trampoline uses");

/* ---- what the sites are --------------------------------------------------------------------- */

static int site_error(struct ocp_ctx *ctx, const struct block_site *site, int err, const char *why)
{
	return ctx_error(ctx, err, "site 0x%" PRIx64 ": %s", site->addr, why);
}

/*
 * Find the mapping of ADDR. *LAST is a cache: the mapping found most recently, which usually
 * contains the next address, too.
 */
static const struct mapping *find_mapping(const struct maps *maps, uint64_t addr,
					  const struct mapping **last)
{
	if (!*last || addr < (*last)->start || addr >= (*last)->end)
		*last = maps_find(maps, addr);
	return *last;
}

/* Copy the present bytes of all windows of SPEC at once. */
static int read_windows(struct inside *inside, const struct inside_spec *spec,
			struct memory_copies *copies)
{
	struct memory_piece *pieces = calloc(spec->n_sites + 1, sizeof(*pieces));
	size_t n = 0;

	if (!pieces)
		return ctx_no_memory(inside->ctx);
	for (size_t i = 0; i < spec->n_sites; i++)
		if (spec->sites[i].window && spec->sites[i].n_window <= WINDOW_MAX_BYTES)
			pieces[n++] = (struct memory_piece){
				.addr = spec->sites[i].addr,
				.bytes = (uint16_t)spec->sites[i].n_window,
			};
	return memory_copies_read(inside->ctx, inside->memory, pieces, n, copies);
}

/*
 * Take the original bytes of the window SITE, which must be those of the file. COPIES has its
 * present bytes.
 */
static int take_window(struct inside *inside, const struct inside_site *from,
		       const struct memory_copies *copies, struct block_site *site)
{
	uint8_t now[WINDOW_MAX_BYTES];

	if (!from->window || from->n_window < PATCH_JUMP_BYTES || from->n_window > sizeof(now) ||
	    from->n_before >= from->n_window)
		return site_error(inside->ctx, site, -EINVAL, "not a window");
	if (!memory_copies_get(inside->memory, copies, from->addr, now, from->n_window) ||
	    memcmp(now, from->window, from->n_window) != 0)
		return site_error(inside->ctx, site, -EBUSY,
				  "its code is not that of the file: another tool has changed it");
	site->opcode = now[0];
	memcpy(&site->displacement, now + 1, sizeof(site->displacement));
	return 0;
}

static int take_bytes(struct ocp_ctx *ctx, const struct maps *maps, const struct site_bytes *bytes,
		      struct block_site *site, const struct mapping **last)
{
	const struct mapping *m;
	int32_t displacement;

	if ((bytes->code[0] != SITE_NOP && bytes->code[0] != SITE_INT3) ||
	    (bytes->code[1] != SITE_OFF && bytes->code[1] != SITE_ON))
		return site_error(ctx, site, -EINVAL, "not the code of a probe");
	memcpy(&displacement, bytes->code + 2, sizeof(displacement));
	m = find_mapping(maps, site->addr + SITE_BYTES + (uint64_t)(int64_t)displacement, last);
	/*
	 * MAPS may have been read before the site's bytes, so the block that the site calls may be
	 * missing in MAPS.
	 */
	if (!m || !m->inode || blocks_are_in(m))
		return site_error(ctx, site, -EBUSY, "another tool has changed it");
	if (!m->executable)
		return site_error(ctx, site, -EINVAL, "calls outside of the program's code");
	site->displacement = (uint32_t)displacement;
	site->opcode = bytes->code[1];
	return 0;
}

int build_sites(struct inside *inside, const struct inside_spec *spec, const struct maps *maps)
{
	struct block_site *sites =
		populated_calloc(spec->n_sites + 1, sizeof(*sites)); /* freed with INSIDE */
	const struct mapping *last = NULL;
	struct memory_copies copies = { 0 };
	struct site_bytes *bytes = NULL;
	int err;

	inside->sites = sites;
	if (!sites)
		return ctx_no_memory(inside->ctx);

	for (size_t i = 0; i < spec->n_sites; i++) {
		const struct inside_site *from = &spec->sites[i];

		sites[i] = (struct block_site){
			.addr = from->addr,
			.gate = from->window	  ? BLOCK_GATE_NONE
				: from->semaphore ? BLOCK_GATE_SEMAPHORE
						  : BLOCK_GATE_PRIVATE,
			.gate_addr = from->semaphore,
		};
	}
	err = site_reader_make(inside->ctx, inside->memory, sites, spec->n_sites, &inside->reader);
	if (!err)
		err = site_reader_read(inside->reader, inside->memory, &bytes);
	if (!err)
		err = read_windows(inside, spec, &copies);
	for (size_t i = 0; !err && i < spec->n_sites; i++) {
		struct block_site *site = &sites[i];

		err = is_window(site) ? take_window(inside, &spec->sites[i], &copies, site)
				      : take_bytes(inside->ctx, maps, &bytes[i], site, &last);
		/* If the semaphore disagrees with the site, it cannot be the gate. */
		if (site->gate == BLOCK_GATE_SEMAPHORE &&
		    !bytes[i].gate != (site->opcode == SITE_OFF)) {
			site->gate = BLOCK_GATE_PRIVATE;
			site->gate_addr = 0;
		}
	}
	memory_copies_free(&copies);
	return err;
}

/* ---- the block ------------------------------------------------------------------------------ */

/*
 * Set *VIEW to a copy of HEADER in which `addr` is the address of the data of PART: the code of a
 * part uses the data of the same part.
 */
static void look_from(const struct block_header *header, size_t part, struct block_header *view)
{
	*view = *header;
	view->addr = header->parts[part].addr;
}

/* Return the address of the code of PART in our mapping of the block. */
static uint8_t *code_of(const struct inside *inside, size_t part)
{
	return inside->block + inside->header.parts[part].code_off;
}

/* Return the filter of site I, for templates.h. */
static struct templates_filter filter_of(const struct build *build, size_t i,
					 const struct block_header *view)
{
	return (struct templates_filter){
		.filter = build->spec->sites[i].filter,
		.number = (uint32_t)i,
		.rejected =
			view->addr + view->counters_off + block_rejected(view) * sizeof(uint64_t),
		.mismatches = view->addr + block_mismatches_off(view),
	};
}

/* Return the offset, in the trampoline of FROM, of the address that the site calls. */
static uint64_t entry_off_of(const struct block_header *view, const struct inside_site *from)
{
	return from->filter ? templates_filter_off(view->n_shards, from)
			    : templates_entry_off(view->n_shards);
}

/*
 * Assemble the trampoline of site I, which is in PART. VIEW is the header made by look_from() for
 * PART.
 */
static int write_trampoline(struct inside *inside, const struct build *build, size_t i, size_t part,
			    const struct block_header *view)
{
	const struct inside_site *from = &build->spec->sites[i];
	const struct block_site *site = &inside->sites[i];
	const bool is_private = site->gate == BLOCK_GATE_PRIVATE;
	const struct templates_site code = {
		.trampoline = site->trampoline - entry_off_of(view, from),
		.counter = view->addr + view->counters_off + i * sizeof(uint64_t),
		.gate = is_private ? view->addr + view->gates_off + i * sizeof(uint16_t)
				   : site->gate_addr,
		.wrapper = site->addr + SITE_BYTES + (uint64_t)(int64_t)(int32_t)site->displacement,
		.roles = from->roles,
		.n_roles = from->n_roles,
		.filter = filter_of(build, i, view),
	};

	return templates_site(inside->ctx, view, &build->process, &code,
			      code_of(inside, part) +
				      (code.trampoline - view->addr - view->code_off));
}

/*
 * Copy the instructions of WINDOW for its trampoline, in two parts. Return false if an instruction
 * cannot be copied.
 */
static bool copy_window(const struct insn_decoder *decoder, uint32_t n_shards,
			struct templates_window *window, struct window_copy *before,
			struct window_copy *rest)
{
	const struct inside_site *site = window->site;
	const size_t n_before = site->n_before;
	const uint64_t before_at = window->trampoline + templates_before_off(n_shards, site);
	const uint64_t rest_at = window->trampoline + templates_rest_off(n_shards, site);

	/* The first part has no branches, so its copy has the same size. */
	if (!window_copy_make(decoder, site->window, n_before, site->addr, before_at, false,
			      before) ||
	    before->n_bytes != n_before ||
	    !window_copy_make(decoder, site->window + n_before, site->n_window - n_before,
			      site->addr + n_before, rest_at, true, rest) ||
	    before->n_bytes + rest->n_bytes > TEMPLATES_COPY_BYTES)
		return false;
	window->before.bytes = before->bytes;
	window->before.n = before->n_bytes;
	window->rest.bytes = rest->bytes;
	window->rest.n = rest->n_bytes;
	return true;
}

/* Like write_trampoline(), for a site that is a window. */
static int write_window(struct inside *inside, const struct build *build, size_t i, size_t part,
			const struct block_header *view, const struct insn_decoder *decoder)
{
	const struct inside_site *from = &build->spec->sites[i];
	struct templates_window code = {
		.trampoline = inside->sites[i].trampoline - entry_off_of(view, from),
		.counter = view->addr + view->counters_off + i * sizeof(uint64_t),
		.site = from,
		.filter = filter_of(build, i, view),
	};
	struct window_copy before = { 0 }, rest = { 0 };

	if (!copy_window(decoder, view->n_shards, &code, &before, &rest))
		return site_error(
			inside->ctx, &inside->sites[i], -EINVAL,
			"its instructions cannot be copied to the memory of the counters");
	return templates_window(inside->ctx, view, &build->process, &code,
				code_of(inside, part) +
					(code.trampoline - view->addr - view->code_off));
}

static void set_private_gate(struct inside *inside, size_t i)
{
	struct block_site *site = &inside->sites[i];
	const uint64_t off = inside->header.gates_off + i * sizeof(uint16_t);
	uint16_t *gate = (uint16_t *)(inside->block + off);

	site->gate = BLOCK_GATE_PRIVATE;
	site->gate_addr = inside->header.addr + off;
	__atomic_store_n(gate, site->opcode == SITE_ON, __ATOMIC_RELAXED);
}

int build_private_gate(struct inside *inside, const struct build *build, size_t i)
{
	const size_t part = layout_part_of(&build->parts, build->spec->sites[i].addr);
	struct block_header view;

	set_private_gate(inside, i);
	look_from(&inside->header, part, &view);
	return write_trampoline(inside, build, i, part, &view);
}

/* Assemble the routines of PART, and the trampolines of its sites. */
static int build_part(struct inside *inside, const struct build *build, size_t part,
		      const struct insn_decoder *decoder)
{
	const struct inside_spec *spec = build->spec;
	struct block_header view;
	uint64_t off;
	int err;

	look_from(&inside->header, part, &view);
	off = layout_trampolines_off(&view);
	err = templates_routines(inside->ctx, &view, &build->process, code_of(inside, part));
	for (size_t i = 0; !err && i < spec->n_sites; i++) {
		struct block_site *site = &inside->sites[i];

		if (layout_part_of(&build->parts, spec->sites[i].addr) != part)
			continue;
		site->trampoline = view.addr + off + entry_off_of(&view, &spec->sites[i]);
		if (site->gate == BLOCK_GATE_PRIVATE)
			set_private_gate(inside, i);
		err = is_window(site) ? write_window(inside, build, i, part, &view, decoder)
				      : write_trampoline(inside, build, i, part, &view);
		off += layout_trampoline_bytes(view.n_shards, &spec->sites[i]);
	}
	return err;
}

static void write_meta(struct inside *inside, const struct inside_spec *spec)
{
	uint8_t *to = inside->block + inside->header.meta_off;

	for (size_t i = 0; i < spec->n_meta; i++)
		to = mempcpy(to, spec->meta[i].iov_base, spec->meta[i].iov_len);
}

/*
 * Mark the pairs that are matched by key. Slot 0 of these pairs is in use from the start, and
 * belongs to no thread.
 */
static void mark_keyed(struct inside *inside, const struct inside_spec *spec)
{
	const struct block_header *header = &inside->header;

	for (size_t i = 0; i < spec->n_sites; i++) {
		const struct inside_role *roles = spec->sites[i].roles;

		for (size_t r = 0; r < spec->sites[i].n_roles && !roles[r].event; r++) {
			uint8_t *area = inside->block + pairs_area_off(header, roles[r].pair);
			struct pairs_shared *shared = (void *)area;
			struct pairs_slot *slots =
				(void *)(area + pairs_slots_off(header->n_threads));

			if (!roles[r].is_keyed || roles[r].has_group)
				continue;
			shared->is_keyed = 1;
			shared->used[0] = 1;
			slots[0].tid = PAIRS_SHARED;
		}
	}
}

int build_block(struct inside *inside, const struct build *build)
{
	const struct block_header *header = &inside->header;
	const struct inside_spec *spec = build->spec;
	struct insn_decoder decoder; /* for windows */
	int err = 0;

	if (!insn_decoder_init(&decoder))
		return ctx_no_memory(inside->ctx);
	populate(inside->block + header->sites_off, header->counters_off - header->sites_off);
	populate(inside->block + header->rings_off, header->bytes - header->rings_off);
	write_meta(inside, spec);
	mark_keyed(inside, spec);
	for (size_t i = 0; !err && i < header->n_parts; i++)
		err = build_part(inside, build, i, &decoder);
	insn_decoder_free(&decoder);
	inside_put_sites(inside);
	return err;
}

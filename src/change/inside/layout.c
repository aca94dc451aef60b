// SPDX-License-Identifier: MIT
/*
 * Compute the layout of a block, and find addresses for its parts. A call has a 32-bit
 * displacement. So the code must lie within 2 GiB of the sites, of their wrappers and of the
 * semaphores, and the data within 2 GiB of the code. A program and its plugins may be further
 * apart.
 *
 * One block in several parts (block.h) was chosen because little other code has to know of the
 * parts. Several blocks would have to be found, ended and undone together, and no pair could begin
 * in one and end in another. Code that reaches data anywhere would need one more register and
 * instruction at each counter, gate and pair. Mapping the data near each part costs a hit nothing:
 * the code is the same, and only its addresses differ.
 *
 * The addresses of the parts are not left to the kernel. A position-independent program has a free
 * range below its image and another one above its heap, and the heap grows upwards. So a part is
 * put into the middle of the largest free range within reach, far from everything that grows.
 */
#include "change/inside/layout.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <unistd.h>
#include "change/inside/groups.h"
#include "change/inside/rings.h"
#include "change/inside/templates.h"

/*
 * The largest distance between sites of one part. It is half the reach of a call, so that the
 * semaphores of the sites are within reach, too.
 */
static const uint64_t sites_bytes = UINT64_C(1) << 30;
static const uint64_t shards_bytes = 64 << 20;
/* How far the instructions of a window may be from what they refer to. */
static const uint64_t window_reach = 256 << 20;

enum { CACHE_LINE = 64 };
static_assert(LAYOUT_MAX_SITES < 1 << BLOCK_MISMATCH_SITE_BITS, "block_mismatch() has room");

static uint64_t round_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

/* ---- the pairs ------------------------------------------------------------------------------ */

enum { BITS_A_WORD = 64 };

uint32_t pairs_n_slots(size_t max_threads)
{
	uint32_t n = PAIRS_WINDOW;

	/* With at most half of the slots in use, a window without a free slot is rare. */
	while (n < PAIRS_MAX_THREADS && n / 2 < max_threads)
		n *= 2;
	return n;
}

uint64_t pairs_slots_off(uint32_t n_threads)
{
	const uint64_t words = ((uint64_t)n_threads + BITS_A_WORD - 1) / BITS_A_WORD;
	const uint64_t bytes = offsetof(struct pairs_shared, used) + words * sizeof(uint64_t);

	return round_up(bytes, CACHE_LINE);
}

uint32_t pairs_n_in_area(const struct block_header *header)
{
	return header->pairs_are_keyed ? pairs_n_totals(header->n_threads) : header->n_threads;
}

uint64_t pairs_stride(const struct block_header *header)
{
	const uint32_t n = header->n_threads,
		       n_keys = header->pairs_are_keyed ? pairs_n_keys(n) : 0;

	return pairs_slots_off(n) + pairs_n_in_area(header) * sizeof(struct pairs_slot) +
	       n_keys * sizeof(struct pairs_keyed_start);
}

static_assert(sizeof(struct pairs_keyed_start) * PAIRS_WINDOW * PAIRS_KEYS_A_THREAD <=
		      (PAIRS_WINDOW - PAIRS_WINDOW / PAIRS_THREADS_A_TOTAL) *
			      sizeof(struct pairs_slot),
	      "the entries of a pair by key have room behind its totals");

uint32_t pairs_n_totals(uint32_t n_threads)
{
	return n_threads / PAIRS_THREADS_A_TOTAL;
}

uint32_t pairs_n_keys(uint32_t n_threads)
{
	return n_threads * PAIRS_KEYS_A_THREAD;
}

uint64_t pairs_keys_off(uint32_t n_threads)
{
	return pairs_n_totals(n_threads) * sizeof(struct pairs_slot);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* A shard has a counter for each site, and one for the hits that a filter rejects. */
static uint64_t shard_stride(size_t n_sites)
{
	return round_up(n_sites + 1, CACHE_LINE / sizeof(uint64_t));
}

uint64_t layout_trampolines_off(const struct block_header *header)
{
	return header->code_off + round_up(templates_routines_bytes(), CACHE_LINE);
}

/*
 * Return the maximum number of shards. With very many sites and CPUs, one shard per CPU would take
 * too much memory. In this case, some CPUs share the last shard.
 */
uint32_t layout_max_shards(size_t n_sites)
{
	const uint64_t n = shards_bytes / (shard_stride(n_sites) * sizeof(uint64_t));

	return 1 + (uint32_t)(n < TEMPLATES_MAX_SHARDS ? n : TEMPLATES_MAX_SHARDS - 1);
}

/*
 * The meta bytes name the sites, so their limit depends on the number of sites. A limit is needed
 * because a hostile process can claim any number of meta bytes, and to read a page of meta bytes
 * costs a page of memory and some microseconds.
 */
uint64_t layout_max_meta_bytes(size_t n_sites)
{
	const uint64_t mib = 1 << 20, most = 4 * mib + n_sites * UINT64_C(1024);

	return most < 256 * mib ? most : 256 * mib;
}

uint32_t layout_n_shards(size_t n_sites)
{
	const long n_cpus = sysconf(_SC_NPROCESSORS_CONF);
	const uint64_t n = 1 + (n_cpus > 0 ? (uint64_t)n_cpus : 1);
	const uint32_t most = layout_max_shards(n_sites);

	return n < most ? (uint32_t)n : most;
}

static int check_spec(struct ocp_ctx *ctx, const struct inside_spec *spec)
{
	if (!spec->n_sites)
		return ctx_error(ctx, -EINVAL, "no sites to count inside");
	if (spec->n_sites > LAYOUT_MAX_SITES || spec->n_pairs > LAYOUT_MAX_SITES ||
	    spec->n_groups > spec->n_sites + spec->n_pairs ||
	    spec->meta_bytes > layout_max_meta_bytes(spec->n_sites))
		return ctx_error(ctx, -E2BIG, "%zu sites: too many to count inside", spec->n_sites);
	if (spec->event_args > INSIDE_EVENT_ARGS)
		return ctx_error(ctx, -EINVAL, "%u arguments of an event: at most %d",
				 spec->event_args, INSIDE_EVENT_ARGS);
	if (spec->n_pairs && (spec->depth < 1 || spec->depth > PAIRS_DEPTH))
		return ctx_error(ctx, -EINVAL, "depth %u: must be from 1 to %d", spec->depth,
				 PAIRS_DEPTH);
	return 0;
}

size_t layout_trampoline_bytes(uint32_t n_shards, const struct inside_site *site)
{
	return site->filter   ? templates_filtered_bytes(n_shards, site)
	       : site->window ? templates_window_bytes(n_shards, site)
			      : templates_site_bytes(n_shards, site->roles, site->n_roles);
}

/* ---- the parts ------------------------------------------------------------------------------ */

size_t layout_part_of(const struct layout_parts *parts, uint64_t addr)
{
	size_t i = parts->n - 1;

	while (i && addr < parts->parts[i].first)
		i--;
	return i;
}

static void reach_to(struct layout_part *part, uint64_t addr)
{
	if (addr < part->low)
		part->low = addr;
	if (addr > part->high)
		part->high = addr;
}

int layout_divide(struct ocp_ctx *ctx, const struct inside_spec *spec, const uint64_t *addrs,
		  struct layout_parts *parts)
{
	parts->n = 0;
	for (size_t i = 0; i < spec->n_sites; i++) {
		if (parts->n && addrs[i] - parts->parts[parts->n - 1].first <= sites_bytes)
			continue;
		if (parts->n == BLOCK_MAX_PARTS)
			return ctx_error(ctx, -ENOTSUP,
					 "sites lie at more than %d places that are further apart "
					 "than one jump reaches: they cannot be counted inside at "
					 "the same time",
					 BLOCK_MAX_PARTS);
		parts->parts[parts->n++] = (struct layout_part){ addrs[i], addrs[i], addrs[i] };
	}
	for (size_t i = 0; i < spec->n_sites; i++) {
		const struct inside_site *site = &spec->sites[i];
		struct layout_part *part = &parts->parts[layout_part_of(parts, site->addr)];

		reach_to(part, site->addr);
		if (site->window) {
			reach_to(part, site->addr > window_reach ? site->addr - window_reach : 0);
			reach_to(part, site->addr + window_reach);
		}
		if (site->semaphore)
			reach_to(part, site->semaphore);
	}
	for (size_t i = 0; i < parts->n; i++)
		if (parts->parts[i].high - parts->parts[i].low > LAYOUT_REACH_BYTES)
			return ctx_error(ctx, -ENOTSUP,
					 "sites lie further from their semaphores than one jump "
					 "reaches: they cannot be counted inside");
	return 0;
}

/* ---- the block ------------------------------------------------------------------------------ */

/*
 * Add up the sizes of the trampolines of each part, and round the code of each part up to whole
 * pages.
 */
static void lay_out_code(const struct inside_spec *spec, const struct layout_parts *parts,
			 struct block_header *header)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t off = header->code_off;

	header->n_parts = parts->n;
	for (size_t i = 0; i < parts->n; i++)
		header->parts[i].code_bytes = 0;
	for (size_t i = 0; i < spec->n_sites; i++) {
		const struct inside_site *site = &spec->sites[i];

		header->parts[layout_part_of(parts, site->addr)].code_bytes +=
			layout_trampoline_bytes(header->n_shards, site);
	}
	for (size_t i = 0; i < parts->n; i++) {
		struct block_part *part = &header->parts[i];

		part->code_off = off;
		part->code_bytes += layout_trampolines_off(header) - header->code_off;
		part->code_bytes = round_up(part->code_bytes, page);
		off += part->code_bytes;
	}
	header->code_bytes = off - header->code_off;
}

void layout_offsets(struct block_header *header)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n_sites = header->n_sites;

	header->shard_stride = shard_stride(n_sites);
	header->sites_off = round_up(sizeof(*header), CACHE_LINE);
	header->gates_off = header->sites_off + n_sites * sizeof(struct block_site);
	header->counters_off = round_up(header->gates_off + n_sites * sizeof(uint16_t), CACHE_LINE);
	header->pairs_off = block_mismatches_off(header) + sizeof(struct block_mismatches);
	header->groups_off = header->pairs_off;
	if (header->n_pairs)
		header->groups_off = pairs_pids_off(header) + PAIRS_PIDS * sizeof(uint64_t);
	header->groups_off = round_up(header->groups_off, CACHE_LINE);
	header->rings_off = header->groups_off + groups_bytes(header);
	header->meta_off = header->rings_off + rings_bytes(header);
	header->code_off = round_up(header->meta_off + header->meta_bytes, page);
}

/* Divide spec->event_bytes among rings: one for each CPU, each with enough slots. */
static void lay_out_rings(const struct inside_spec *spec, struct block_header *header)
{
	const long n_cpus = sysconf(_SC_NPROCESSORS_CONF);
	uint64_t slots;

	if (!spec->event_bytes)
		return;
	header->n_rings = 1;
	while (header->n_rings < RINGS_MAX && header->n_rings < n_cpus)
		header->n_rings *= 2;
	header->slot_bytes = rings_slot_bytes(spec->event_args);
	header->ring_slots = RINGS_MIN_SLOTS;
	slots = spec->event_bytes / header->n_rings / header->slot_bytes;
	while (header->ring_slots < RINGS_MAX_SLOTS && header->ring_slots * UINT64_C(2) <= slots)
		header->ring_slots *= 2;
}

/* Set the offsets and the size of the block from the counts of HEADER. */
static void add_up_bytes(const struct inside_spec *spec, const struct layout_parts *parts,
			 struct block_header *header)
{
	layout_offsets(header);
	lay_out_code(spec, parts, header);
	header->bytes = header->code_off + header->code_bytes;
}

bool layout_roles_are_keyed(const struct inside_role *roles, size_t n_roles)
{
	for (size_t i = 0; i < n_roles && !roles[i].event; i++)
		if (!roles[i].is_keyed && !roles[i].has_group)
			return false;
	return true;
}

static bool pairs_are_keyed(const struct inside_spec *spec)
{
	for (size_t i = 0; i < spec->n_sites; i++)
		if (!layout_roles_are_keyed(spec->sites[i].roles, spec->sites[i].n_roles))
			return false;
	return spec->n_pairs > 0;
}

int layout_make(struct ocp_ctx *ctx, const struct inside_spec *spec,
		const struct layout_parts *parts, uint32_t n_shards, struct block_header *header)
{
	int err = check_spec(ctx, spec);

	header->bytes = 0;
	if (err)
		return err;
	*header = (struct block_header){
		.version = BLOCK_VERSION,
		.header_bytes = sizeof(*header),
		.meta_bytes = spec->meta_bytes,
		.n_sites = (uint32_t)spec->n_sites,
		.n_pairs = (uint32_t)spec->n_pairs,
		.n_groups = (uint32_t)spec->n_groups,
		.n_times = spec->groups_times ? groups_n_times((uint32_t)spec->n_pairs) : 0,
		.n_shards = n_shards,
		.n_threads = spec->n_pairs ? pairs_n_slots(spec->max_threads) : 0,
		.depth = spec->depth,
		.pairs_are_keyed = pairs_are_keyed(spec),
		.maker = (uint32_t)getpid(),
	};
	lay_out_rings(spec, header);
	add_up_bytes(spec, parts, header);
	/* The more pairs there are, the fewer slots each pair has. */
	while (header->bytes > LAYOUT_MAX_BYTES && header->n_threads > PAIRS_WINDOW) {
		header->n_threads /= 2;
		add_up_bytes(spec, parts, header);
	}
	if (header->bytes <= LAYOUT_MAX_BYTES)
		return 0;
	header->bytes = 0;
	return ctx_error(ctx, -E2BIG, "%zu sites and %zu pairs: too many to count inside",
			 spec->n_sites, spec->n_pairs);
}

/* ---- its place ------------------------------------------------------------------------------ */

struct gap {
	uint64_t start, end;
};

/* If the part of [START, END) within BOUNDS is larger than *BEST, set *BEST to it. */
static void consider(uint64_t start, uint64_t end, const struct gap *bounds, struct gap *best)
{
	if (start < bounds->start)
		start = bounds->start;
	if (end > bounds->end)
		end = bounds->end;
	if (start < end && end - start > best->end - best->start)
		*best = (struct gap){ start, end };
}

/*
 * Place PART, of BYTES bytes, at *FLOOR or above. Set *ADDR to its address and *FLOOR to its end.
 */
static int place_part(struct ocp_ctx *ctx, const struct maps *maps, const struct layout_part *part,
		      uint64_t bytes, uint64_t *floor, uint64_t *addr)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct gap bounds = { *floor, LAYOUT_END_ADDR }, best = { 0 };
	uint64_t last_end = 0;

	if (part->high > LAYOUT_REACH_BYTES && part->high - LAYOUT_REACH_BYTES > bounds.start)
		bounds.start = part->high - LAYOUT_REACH_BYTES;
	if (part->low + LAYOUT_REACH_BYTES < bounds.end)
		bounds.end = part->low + LAYOUT_REACH_BYTES;
	for (size_t i = 0; i < maps->n; i++) {
		consider(last_end, maps->mappings[i].start, &bounds, &best);
		last_end = maps->mappings[i].end;
	}
	consider(last_end, LAYOUT_END_ADDR, &bounds, &best);
	if (best.end - best.start < bytes + 2 * page)
		return ctx_error(ctx, -ENOTSUP,
				 "no %" PRIu64 " bytes of free addresses near the sites", bytes);
	*addr = (best.start + (best.end - best.start - bytes) / 2) / page * page;
	*floor = *addr + bytes;
	return 0;
}

int layout_place(struct ocp_ctx *ctx, const struct maps *maps, const struct layout_parts *parts,
		 struct block_header *header)
{
	uint64_t floor = LAYOUT_FIRST_ADDR;
	int err = 0;

	for (size_t i = 0; !err && i < parts->n; i++)
		err = place_part(ctx, maps, &parts->parts[i],
				 header->code_off + header->parts[i].code_bytes, &floor,
				 &header->parts[i].addr);
	header->addr = header->parts[0].addr;
	return err;
}

// SPDX-License-Identifier: MIT
/*
 * A call has a distance of 32 bits. So the block must lie within 2 GiB of all sites, of their wrappers and
 * of all semaphores. The kernel places it nowhere by itself: a position-independent program has free
 * memory below its image, another one above its heap, which grows upwards. The middle of the largest free
 * part is far from all that grows.
 */
#include "inside/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>
#include "inside/pairs.h"
#include "inside/templates.h"

static const uint64_t reach_bytes = (UINT64_C(1) << 31) - (1 << 20);
/* Addresses that no mapping of ours may have: the first MiB, and the non-canonical ones. */
static const uint64_t first_addr = 1 << 20, end_addr = UINT64_C(0x7ffffff00000);

enum { CACHE_LINE = 64 };

static uint64_t round_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

uint64_t layout_trampolines_off(const struct block_header *header)
{
	return header->code_off + round_up(templates_routines_bytes(), CACHE_LINE);
}

static int check_spec(struct ocp_ctx *ctx, const struct inside_spec *spec)
{
	if (!spec->n_sites)
		return ctx_error(ctx, -EINVAL, "no sites to count inside");
	if (spec->n_sites > LAYOUT_MAX_SITES || spec->meta_bytes > LAYOUT_MAX_META ||
	    spec->n_pairs > LAYOUT_MAX_SITES)
		return ctx_error(ctx, -E2BIG, "%zu sites: too many to count inside", spec->n_sites);
	if (spec->n_pairs && (spec->depth < 1 || spec->depth > PAIRS_DEPTH))
		return ctx_error(ctx, -EINVAL, "depth %u: must be from 1 to %d", spec->depth,
				 PAIRS_DEPTH);
	return 0;
}

static uint64_t trampolines_bytes(const struct inside_spec *spec, uint32_t n_shards)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < spec->n_sites; i++) {
		const struct inside_site *site = &spec->sites[i];
		size_t n_stops = 0;

		for (uint32_t r = 0; r < site->n_roles; r++)
			n_stops += spec->roles[site->first_role + r].is_stop;
		bytes += templates_site_bytes(n_shards, site->n_roles, n_stops);
	}
	return bytes;
}

int layout_make(struct ocp_ctx *ctx, const struct inside_spec *spec, uint32_t n_shards,
		struct block_header *header)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
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
		.n_shards = n_shards,
		.n_threads = spec->n_pairs ? pairs_n_slots(spec->max_threads) : 0,
		.depth = spec->depth,
		.maker = (uint32_t)getpid(),
		.shard_stride = round_up(spec->n_sites, CACHE_LINE / sizeof(uint64_t)),
	};
	header->sites_off = round_up(sizeof(*header), CACHE_LINE);
	header->gates_off = header->sites_off + spec->n_sites * sizeof(struct block_site);
	header->counters_off =
		round_up(header->gates_off + spec->n_sites * sizeof(uint16_t), CACHE_LINE);
	header->pairs_off =
		header->counters_off + n_shards * header->shard_stride * sizeof(uint64_t);
	header->meta_off = header->pairs_off;
	if (spec->n_pairs)
		header->meta_off += pairs_bytes(header->n_pairs, header->n_threads);
	header->meta_off = round_up(header->meta_off, CACHE_LINE);
	header->code_off = round_up(header->meta_off + spec->meta_bytes, page);
	header->code_bytes = round_up(layout_trampolines_off(header) - header->code_off +
					      trampolines_bytes(spec, n_shards),
				      page);
	header->bytes = header->code_off + header->code_bytes;
	if (header->bytes <= reach_bytes / 2)
		return 0;
	header->bytes = 0;
	return ctx_error(ctx, -E2BIG, "%zu sites and %zu pairs: too many to count inside",
			 spec->n_sites, spec->n_pairs);
}

static void reach_to(struct layout_reach *reach, uint64_t addr)
{
	if (addr < reach->low)
		reach->low = addr;
	if (addr > reach->high)
		reach->high = addr;
}

void layout_reach(const struct inside_spec *spec, struct layout_reach *reach)
{
	*reach = (struct layout_reach){ .low = UINT64_MAX };
	for (size_t i = 0; i < spec->n_sites; i++) {
		const struct inside_site *site = &spec->sites[i];

		reach_to(reach, site->addr);
		if (site->semaphore && !site->needs_private_gate)
			reach_to(reach, site->semaphore);
	}
}

struct gap {
	uint64_t start, end;
};

/* Is the part of [START, END) within BOUNDS larger than BEST? */
static void consider(uint64_t start, uint64_t end, const struct gap *bounds, struct gap *best)
{
	if (start < bounds->start)
		start = bounds->start;
	if (end > bounds->end)
		end = bounds->end;
	if (start < end && end - start > best->end - best->start)
		*best = (struct gap){ start, end };
}

int layout_place(struct ocp_ctx *ctx, const struct maps *maps, const struct layout_reach *reach,
		 uint64_t bytes, uint64_t *addr)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct gap bounds = { first_addr, end_addr }, best = { 0 };
	uint64_t last_end = 0;

	if (reach->high - reach->low > reach_bytes)
		return ctx_error(ctx, -ENOTSUP,
				 "sites lie further apart than one jump reaches: they cannot be "
				 "counted inside at the same time");
	if (reach->high > reach_bytes && reach->high - reach_bytes > bounds.start)
		bounds.start = reach->high - reach_bytes;
	if (reach->low + reach_bytes < bounds.end)
		bounds.end = reach->low + reach_bytes;
	for (size_t i = 0; i < maps->n; i++) {
		consider(last_end, maps->mappings[i].start, &bounds, &best);
		last_end = maps->mappings[i].end;
	}
	consider(last_end, end_addr, &bounds, &best);
	if (best.end - best.start < bytes + 2 * page)
		return ctx_error(ctx, -ENOTSUP,
				 "no %" PRIu64 " bytes of free addresses near the sites", bytes);
	*addr = (best.start + (best.end - best.start - bytes) / 2) / page * page;
	return 0;
}

// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include "inside/pairs.h"
#include "inside/templates.h"
#include "inside/totals.h"

/* The process may be counting. An aligned load of 64 bits never sees half a change. */
static uint64_t load(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

/* ---- what the header says ------------------------------------------------------------------- */

/* N times EACH bytes at OFF lie below END, and are aligned for 64 bits. */
static bool lies_within(uint64_t off, uint64_t n, uint64_t each, uint64_t end)
{
	uint64_t bytes;

	return !(off % sizeof(uint64_t)) && !__builtin_mul_overflow(n, each, &bytes) &&
	       off <= end && bytes <= end - off;
}

static bool is_power_of_2(uint64_t number, uint64_t max)
{
	return number && number <= max && !(number & (number - 1));
}

static bool pairs_lie_within(const struct block_header *header, uint64_t end)
{
	return !header->n_pairs || (is_power_of_2(header->n_threads, PAIRS_MAX_THREADS) &&
				    header->n_threads >= PAIRS_WINDOW && header->depth &&
				    header->depth <= PAIRS_DEPTH &&
				    lies_within(header->pairs_off, header->n_pairs,
						pairs_stride(header->n_threads), end));
}

static bool counters_lie_within(const struct block_header *header, uint64_t end)
{
	uint64_t shard_bytes;

	return header->n_shards && header->n_shards <= TEMPLATES_MAX_SHARDS &&
	       header->shard_stride >= header->n_sites &&
	       !__builtin_mul_overflow(header->shard_stride, sizeof(uint64_t), &shard_bytes) &&
	       lies_within(header->counters_off, header->n_shards, shard_bytes, end);
}

static bool has_parts(const struct block_header *header)
{
	const uint64_t end = header->code_off + header->code_bytes;
	uint64_t off = header->code_off;

	if (!header->n_parts || header->n_parts > BLOCK_MAX_PARTS ||
	    header->parts[0].addr != header->addr || end < off)
		return false;
	for (uint64_t i = 0; i < header->n_parts; i++) {
		const struct block_part *part = &header->parts[i];

		if (part->code_off != off || part->code_bytes > end - off)
			return false;
		off += part->code_bytes;
	}
	return off == end;
}

int totals_check(const struct block_header *header, uint64_t bytes)
{
	const uint64_t end = header->code_off;

	if (header->magic != BLOCK_MAGIC || header->version != BLOCK_VERSION ||
	    header->header_bytes != sizeof(*header))
		return -EBADMSG;
	/* layout_make() makes none that is larger: a reader copies it. */
	if (header->bytes > UINT64_C(1) << 30)
		return -EBADMSG;
	if (header->bytes > bytes || end > header->bytes ||
	    header->code_bytes > header->bytes - end || !has_parts(header))
		return -EBADMSG;
	if (!lies_within(header->sites_off, header->n_sites, sizeof(struct block_site), end) ||
	    !lies_within(header->gates_off, header->n_sites, sizeof(uint16_t), end) ||
	    !lies_within(header->meta_off, header->meta_bytes, 1, end) ||
	    !counters_lie_within(header, end) || !pairs_lie_within(header, end))
		return -EBADMSG;
	return 0;
}

/* ---- sums ----------------------------------------------------------------------------------- */

void totals_hits(const struct block_header *header, const void *block, uint64_t *hits)
{
	const uint64_t *counters = (const uint64_t *)((const char *)block + header->counters_off);

	memset(hits, 0, header->n_sites * sizeof(*hits));
	for (uint32_t shard = 0; shard < header->n_shards; shard++)
		for (uint32_t site = 0; site < header->n_sites; site++)
			hits[site] += load(&counters[shard * header->shard_stride + site]);
}

static void raise_to(uint64_t *highest, uint64_t value)
{
	if (value > *highest)
		*highest = value;
}

/*
 * Starts are read last: of an event that happens meanwhile, the part that is counted later may be missing,
 * but no pair is seen without its start.
 */
static void add_slot(const struct pairs_slot *slot, struct inside_pair *totals,
		     uint64_t *min_ns_not)
{
	for (size_t i = 0; i < PAIRS_BUCKETS; i++) {
		const uint64_t n = load(&slot->buckets[i]);

		totals->buckets[i] += n;
		totals->count += n;
	}
	totals->orphan_starts += load(&slot->orphan_starts);
	totals->sum_ns += load(&slot->sum_ns);
	raise_to(&totals->max_ns, load(&slot->max_ns));
	raise_to(min_ns_not, load(&slot->min_ns_not));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	totals->starts += load(&slot->starts);
}

void totals_pair(const struct block_header *header, const void *block, uint32_t pair,
		 struct inside_pair *totals)
{
	const char *area =
		(const char *)block + header->pairs_off + pair * pairs_stride(header->n_threads);
	const struct pairs_shared *shared = (const struct pairs_shared *)area;
	const struct pairs_slot *slots =
		(const struct pairs_slot *)(area + pairs_slots_off(header->n_threads));
	uint64_t min_ns_not = 0;

	memset(totals, 0, sizeof(*totals));
	for (uint32_t i = 0; i < header->n_threads; i++)
		if (load(&shared->used[i / 64]) >> (i % 64) & 1)
			add_slot(&slots[i], totals, &min_ns_not);
	totals->orphan_stops = load(&shared->orphan_stops);
	totals->collisions = load(&shared->collisions);
	totals->starts += totals->collisions;
	totals->min_ns = totals->count ? ~min_ns_not : 0;
}

// SPDX-License-Identifier: MIT
#include "inside/block_check.h"

#include <errno.h>
#include <unistd.h>
#include "inside/layout.h"
#include "inside/pairs.h"
#include "inside/site_bytes.h"
#include "inside/templates.h"

/* ---- the header ----------------------------------------------------------------------------- */

static bool is_power_of_2(uint64_t number)
{
	return number && !(number & (number - 1));
}

/*
 * Return true if the counts of H are within their bounds, so that no sum in layout_offsets()
 * exceeds 64 bits.
 */
static bool has_sound_counts(const struct block_header *h)
{
	if (!h->n_sites || h->n_sites > LAYOUT_MAX_SITES || h->n_pairs > LAYOUT_MAX_SITES ||
	    h->meta_bytes > LAYOUT_MAX_META || !h->n_shards ||
	    h->n_shards > layout_max_shards(h->n_sites))
		return false;
	if (!h->n_pairs)
		return !h->n_threads;
	return is_power_of_2(h->n_threads) && h->n_threads >= PAIRS_WINDOW &&
	       h->n_threads <= PAIRS_MAX_THREADS && h->depth && h->depth <= PAIRS_DEPTH;
}

static bool has_sound_offsets(const struct block_header *h)
{
	struct block_header made = *h;

	layout_offsets(&made);
	return h->shard_stride == made.shard_stride && h->sites_off == made.sites_off &&
	       h->gates_off == made.gates_off && h->counters_off == made.counters_off &&
	       h->pairs_off == made.pairs_off && h->meta_off == made.meta_off &&
	       h->code_off == made.code_off;
}

/* Return true if the parts' code ranges adjoin, and have room for all sites. */
static bool has_sound_code(const struct block_header *h)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t routines = layout_trampolines_off(h) - h->code_off;
	uint64_t off = h->code_off, room = 0;

	if (!h->n_parts || h->n_parts > BLOCK_MAX_PARTS || h->bytes > LAYOUT_MAX_BYTES ||
	    h->bytes < h->code_off || h->code_bytes != h->bytes - h->code_off)
		return false;
	for (uint64_t i = 0; i < h->n_parts; i++) {
		const struct block_part *part = &h->parts[i];

		if (part->code_off != off || part->code_bytes % page ||
		    part->code_bytes < routines || part->code_bytes > h->bytes - off)
			return false;
		room += part->code_bytes - routines;
		off += part->code_bytes;
	}
	return off == h->bytes &&
	       room >= (uint64_t)h->n_sites * templates_site_bytes(h->n_shards, NULL, 0);
}

/* Return true if the parts are in ascending order of their addresses, and do not overlap. */
static bool has_sound_addresses(const struct block_header *h)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t floor = LAYOUT_FIRST_ADDR;

	for (uint64_t i = 0; i < h->n_parts; i++) {
		const struct block_part *part = &h->parts[i];
		const uint64_t bytes = h->code_off + part->code_bytes;

		if (part->addr % page || part->addr < floor || part->addr > LAYOUT_END_ADDR ||
		    bytes > LAYOUT_END_ADDR - part->addr)
			return false;
		floor = part->addr + bytes;
	}
	return h->addr == h->parts[0].addr;
}

int block_check(const struct block_header *header, uint64_t bytes)
{
	if (header->magic != BLOCK_MAGIC || header->version != BLOCK_VERSION ||
	    header->header_bytes != sizeof(*header) || header->bytes > bytes ||
	    !has_sound_counts(header) || !has_sound_offsets(header) || !has_sound_code(header) ||
	    !has_sound_addresses(header))
		return -EBADMSG;
	return 0;
}

/* ---- the sites ------------------------------------------------------------------------------ */

void block_order_begin(struct block_order *order, const struct block_header *header)
{
	for (size_t i = 0; i < BLOCK_MAX_PARTS; i++)
		order->next[i] =
			layout_trampolines_off(header) + templates_entry_off(header->n_shards);
}

static bool has_sound_gate(const struct block_header *h, size_t i, const struct block_site *site)
{
	if (site->gate == BLOCK_GATE_PRIVATE)
		return site->gate_addr == h->addr + h->gates_off + i * sizeof(uint16_t);
	return site->gate == BLOCK_GATE_SEMAPHORE && site->gate_addr &&
	       site->gate_addr < LAYOUT_ADDRESSES - sizeof(uint16_t);
}

/*
 * Return true if TRAMPOLINE lies in the code of a part, behind the trampolines of the earlier sites
 * of that part.
 */
static bool has_sound_trampoline(struct block_order *order, const struct block_header *h,
				 uint64_t trampoline)
{
	const uint64_t bytes = templates_site_bytes(h->n_shards, NULL, 0);
	const uint64_t entry_off = templates_entry_off(h->n_shards);

	for (uint64_t i = 0; i < h->n_parts; i++) {
		const uint64_t end = h->code_off + h->parts[i].code_bytes;
		const uint64_t off = trampoline - h->parts[i].addr;

		if (off >= end)
			continue;
		if (off < order->next[i] || end - off < bytes - entry_off)
			return false;
		order->next[i] = off + bytes;
		return true;
	}
	return false;
}

bool block_site_is_sound(struct block_order *order, const struct block_header *header, size_t i,
			 const struct block_site *site)
{
	const int64_t distance = (int64_t)(site->trampoline - (site->addr + SITE_BYTES));

	return site->addr && site->addr < LAYOUT_ADDRESSES - SITE_BYTES &&
	       distance == (int32_t)distance &&
	       (site->opcode == SITE_OFF || site->opcode == SITE_ON) &&
	       site->is_patched <= BLOCK_PATCHED && has_sound_gate(header, i, site) &&
	       has_sound_trampoline(order, header, site->trampoline);
}

int block_check_sites(const struct block_header *header, const struct block_site *sites)
{
	struct block_order order;

	block_order_begin(&order, header);
	for (size_t i = 0; i < header->n_sites; i++)
		if (!block_site_is_sound(&order, header, i, &sites[i]))
			return -EBADMSG;
	return 0;
}

// SPDX-License-Identifier: MIT
#include "change/inside/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/search.h"
#include "change/inside/groups.h"
#include "change/inside/layout.h"
#include "change/inside/rings.h"
#include "change/inside/site_bytes.h"
#include "change/inside/templates.h"

/* ---- the header ----------------------------------------------------------------------------- */

static bool is_power_of_2(uint64_t number)
{
	return number && !(number & (number - 1));
}

static bool has_sound_rings(const struct block_header *h)
{
	if (!h->n_rings)
		return !h->ring_slots && !h->slot_bytes;
	return is_power_of_2(h->n_rings) && h->n_rings <= RINGS_MAX &&
	       is_power_of_2(h->ring_slots) && h->ring_slots >= RINGS_MIN_SLOTS &&
	       h->ring_slots <= RINGS_MAX_SLOTS && h->slot_bytes >= rings_slot_bytes(0) &&
	       h->slot_bytes <= rings_slot_bytes(INSIDE_EVENT_ARGS) && h->slot_bytes % 16 == 0;
}

static bool has_sound_groups(const struct block_header *h)
{
	return h->n_groups <= h->n_sites + h->n_pairs &&
	       (!h->n_times ||
		(h->n_groups && h->n_pairs && h->n_times == groups_n_times(h->n_pairs)));
}

/*
 * Return true if the counts in H are within their bounds. Then no sum in layout_offsets() exceeds
 * 64 bits.
 */
static bool has_sound_counts(const struct block_header *h)
{
	if (!h->n_sites || h->n_sites > LAYOUT_MAX_SITES || h->n_pairs > LAYOUT_MAX_SITES ||
	    !has_sound_groups(h) || !has_sound_rings(h) ||
	    h->meta_bytes > layout_max_meta_bytes(h->n_sites) || !h->n_shards ||
	    h->n_shards > layout_max_shards(h->n_sites))
		return false;
	if (!h->n_pairs)
		return !h->n_threads && !h->pairs_are_keyed;
	return is_power_of_2(h->n_threads) && h->n_threads >= PAIRS_WINDOW &&
	       h->n_threads <= PAIRS_MAX_THREADS && h->depth && h->depth <= PAIRS_DEPTH &&
	       h->pairs_are_keyed <= 1;
}

static bool has_sound_offsets(const struct block_header *h)
{
	struct block_header made = *h;

	layout_offsets(&made);
	return h->shard_stride == made.shard_stride && h->sites_off == made.sites_off &&
	       h->gates_off == made.gates_off && h->counters_off == made.counters_off &&
	       h->pairs_off == made.pairs_off && h->groups_off == made.groups_off &&
	       h->rings_off == made.rings_off && h->meta_off == made.meta_off &&
	       h->code_off == made.code_off;
}

/* Return true if the code ranges of the parts adjoin, and all together have room for all sites. */
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

/*
 * How far the check of the sites has come in each part. The trampolines of a part lie in the order
 * of the sites.
 */
struct block_order {
	/*
	 * For each part: the lowest address at which the next trampoline may lie, as an offset from
	 * the address of the part.
	 */
	uint64_t next[BLOCK_MAX_PARTS];
};

static void block_order_begin(struct block_order *order, const struct block_header *header)
{
	for (size_t i = 0; i < BLOCK_MAX_PARTS; i++)
		order->next[i] =
			layout_trampolines_off(header) + templates_entry_off(header->n_shards);
}

static bool has_sound_gate(const struct block_header *h, size_t i, const struct block_site *site)
{
	if (is_window(site))
		return !site->gate_addr;
	if (site->gate == BLOCK_GATE_PRIVATE)
		return site->gate_addr == h->addr + h->gates_off + i * sizeof(uint16_t);
	return site->gate == BLOCK_GATE_SEMAPHORE && site->gate_addr &&
	       site->gate_addr < LAYOUT_ADDRESSES - sizeof(uint16_t);
}

/*
 * Return true if TRAMPOLINE lies in the code of a part, behind the trampolines of those sites of
 * the same part that were checked before.
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

/*
 * Check the sites with the numbers FIRST to END - 1. Call this for adjoining ranges of sites, in
 * ascending order.
 */
static int check_sites(struct block_order *order, const struct block_header *header,
		       const struct block_site *sites, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		const struct block_site *site = &sites[i];
		const int64_t distance = (int64_t)(site->trampoline - site_branch_end(site));

		if (!site->addr || site->addr >= LAYOUT_ADDRESSES - SITE_BYTES ||
		    distance != (int32_t)distance ||
		    (!is_window(site) && site->opcode != SITE_OFF && site->opcode != SITE_ON) ||
		    site->is_patched > BLOCK_PATCHED || !has_sound_gate(header, i, site) ||
		    !has_sound_trampoline(order, header, site->trampoline))
			return -EBADMSG;
	}
	return 0;
}

int block_check_sites(const struct block_header *header, const struct block_site *sites)
{
	struct block_order order;

	block_order_begin(&order, header);
	return check_sites(&order, header, sites, 0, header->n_sites);
}

/* ---- copies --------------------------------------------------------------------------------- */

int block_copy(const struct memory *memory, const struct block_header *header, uint64_t off,
	       uint64_t bytes, void *to)
{
	enum { CHUNK_BYTES = 1 << 20 };
	uint8_t *next = to;

	while (bytes) {
		const size_t part = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
		const struct iovec remote = { (void *)(uintptr_t)(header->addr + off), part };
		const int err = memory_read_in_order(memory, &remote, 1, next, part);

		if (err)
			return err;
		next += part;
		off += part;
		bytes -= part;
	}
	return 0;
}

/*
 * Copy from SHARED, and keep the compiler from reading SHARED a second time where the copy is used.
 */
static void copy_once(void *to, const void *shared, size_t bytes)
{
	memcpy(to, shared, bytes);
	__asm__ volatile("" : : "r"(to) : "memory");
}

int block_copy_sites(const struct memory *memory, const struct block_header *header,
		     const void *shared, struct block_site *sites)
{
	enum { CHUNK_SITES = 1024 };
	const size_t n = header->n_sites;
	struct block_order order;

	block_order_begin(&order, header);
	for (size_t first = 0, end; first < n; first = end) {
		const uint64_t off = header->sites_off + first * sizeof(*sites);
		int err = 0;

		end = n - first > CHUNK_SITES ? first + CHUNK_SITES : n;
		if (shared)
			copy_once(sites + first, (const uint8_t *)shared + off,
				  (end - first) * sizeof(*sites));
		else
			err = block_copy(memory, header, off, (end - first) * sizeof(*sites),
					 sites + first);
		if (!err)
			err = check_sites(&order, header, sites, first, end);
		if (err)
			return err;
	}
	return 0;
}

/* ---- the blocks of a process ---------------------------------------------------------------- */

bool blocks_are_in(const struct mapping *m)
{
	return strcmp(m->path, BLOCK_PATH) == 0;
}

/*
 * Limit of the number of blocks of one process. Normally one block counts, and a few more wait to
 * be removed. But the owner of a process can make any number of blocks, and each block is compared
 * with all others.
 */
enum { MAX_BLOCKS = 256 };

/*
 * Add M, a mapping of a block, to the list. Offset 0 shows that M maps data: code is never at the
 * beginning of the memfd. Return false if there are too many blocks.
 */
static bool add_block_mapping(struct block_found *blocks, size_t *n, const struct mapping *m)
{
	size_t i = 0;

	while (i < *n && blocks[i].inode != m->inode)
		i++;
	if (i < *n && (m->off || blocks[i].end))
		return true;
	if (i == MAX_BLOCKS)
		return false;
	if (i == *n)
		blocks[(*n)++].inode = m->inode;
	if (m->off)
		return true;
	blocks[i].start = m->start;
	blocks[i].end = m->end;
	return true;
}

/* Return true if [START, END) is exactly one mapping of the memfd INODE, at offset OFF. */
static bool is_mapped(const struct maps *maps, uint64_t start, uint64_t end, uint64_t off,
		      uint64_t inode)
{
	const struct mapping *m = maps_find(maps, start);

	return m && blocks_are_in(m) && m->inode == inode && m->start == start && m->end == end &&
	       m->off == off;
}

bool blocks_has(const struct maps *maps, const struct block_header *header, uint64_t inode)
{
	for (uint64_t i = 0; i < header->n_parts; i++) {
		const struct block_part *part = &header->parts[i];
		const uint64_t code = part->addr + header->code_off;

		if (!is_mapped(maps, part->addr, code, 0, inode) ||
		    !is_mapped(maps, code, code + part->code_bytes, part->code_off, inode))
			return false;
	}
	return true;
}

/* Read and classify the header of BLOCK. All parts show the same header, so one read suffices. */
static void classify_block(const struct memory *memory, const struct maps *maps,
			   struct block_found *block)
{
	const struct iovec remote = { (void *)(uintptr_t)block->start, sizeof(block->header) };
	const struct block_header *header = &block->header;
	bool is_sound;

	/* Read the header once into block->header: all checks below use this copy. */
	block->is_gone = block->end && memory_read_in_order(memory, &remote, 1, &block->header,
							    sizeof(*header)) != 0;
	if (block->is_gone)
		return;
	/* If no mapping of the data was found, treat the block as one without a magic number. */
	if (!block->end)
		block->header = (struct block_header){ 0 };
	is_sound = block_check(header, header->bytes) == 0;
	block->is_complete = is_sound && blocks_has(maps, header, block->inode);
	block->is_damaged =
		!is_sound && header->magic == BLOCK_MAGIC && header->version == BLOCK_VERSION;
	block->is_orphan = !block->is_complete && (is_sound || header->magic != BLOCK_MAGIC);
}

static int compare_start(const void *a, const void *b)
{
	const int64_t start_a = ((const struct block_found *)a)->header.start_ns;
	const int64_t start_b = ((const struct block_found *)b)->header.start_ns;

	return COMPARE(start_b, start_a);
}

int blocks_find(struct ocp_ctx *ctx, const struct memory *memory, const struct maps *maps,
		struct block_found **blocks, size_t *n)
{
	*n = 0;
	*blocks = calloc(MAX_BLOCKS, sizeof(**blocks));
	if (!*blocks)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < maps->n; i++) {
		if (!blocks_are_in(&maps->mappings[i]) ||
		    add_block_mapping(*blocks, n, &maps->mappings[i]))
			continue;
		free(*blocks);
		*blocks = NULL;
		*n = 0;
		return ctx_error(ctx, -E2BIG,
				 "pid %d: has more than %d mappings that are named like "
				 "counters: they are not read",
				 (int)memory_pid(memory), MAX_BLOCKS);
	}
	for (size_t i = 0; i < *n; i++)
		classify_block(memory, maps, &(*blocks)[i]);
	qsort(*blocks, *n, sizeof(**blocks), compare_start);
	return 0;
}

// SPDX-License-Identifier: MIT
#include "inside/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include "base/search.h"
#include "inside/block_check.h"

bool blocks_are_in(const struct mapping *m)
{
	return strcmp(m->path, BLOCK_PATH) == 0;
}

/*
 * Limit of the blocks of one process. Normally one block counts, and a few wait for their removal.
 * But the owner of a process can make any number of blocks, and each one is compared with all
 * others.
 */
enum { MAX_BLOCKS = 256 };

/*
 * Add the mapping M of a block. An offset of 0 means data: code is never at the beginning of the
 * memfd. Return false if there are too many blocks.
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

	/* Read the header once: all checks below are of this copy. */
	block->is_gone = block->end && memory_read_in_order(memory, &remote, 1, &block->header,
							    sizeof(*header)) != 0;
	if (block->is_gone)
		return;
	/* No mapping of the data was found: treat the block as one without a magic number. */
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
				 "pid %d: has more than %d pieces of memory that are named as "
				 "counters: they are not read",
				 (int)memory_pid(memory), MAX_BLOCKS);
	}
	for (size_t i = 0; i < *n; i++)
		classify_block(memory, maps, &(*blocks)[i]);
	qsort(*blocks, *n, sizeof(**blocks), compare_start);
	return 0;
}

// SPDX-License-Identifier: MIT
#include "inside/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include "inside/totals.h"

static bool is_of_block(const struct mapping *m)
{
	return strcmp(m->path, BLOCK_PATH) == 0;
}

static void add(struct block_found *blocks, size_t *n, const struct mapping *m)
{
	for (size_t i = 0; i < *n; i++)
		if (blocks[i].inode == m->inode) {
			blocks[i].end = m->end;
			return;
		}
	blocks[*n] = (struct block_found){
		.start = m->start, .end = m->end, .inode = m->inode, .first_end = m->end
	};
	++*n;
}

/* A hole between the two mappings, or a first mapping that is not of the beginning: not sound. */
static void read_header(const struct memory *memory, struct block_found *block)
{
	const struct iovec remote = { (void *)(uintptr_t)block->start, sizeof(block->header) };

	block->is_gone = memory_read_in_order(memory, &remote, 1, &block->header,
					      sizeof(block->header)) != 0;
	if (block->is_gone)
		return;
	block->is_complete = totals_check(&block->header, block->end - block->start) == 0 &&
			     block->header.addr == block->start &&
			     block->header.bytes == block->end - block->start;
	block->is_orphan = block->header.magic != BLOCK_MAGIC;
}

int blocks_find(struct ocp_ctx *ctx, const struct memory *memory, const struct maps *maps,
		struct block_found **blocks, size_t *n)
{
	*n = 0;
	*blocks = calloc(maps->n + 1, sizeof(**blocks));
	if (!*blocks)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < maps->n; i++)
		if (is_of_block(&maps->mappings[i]))
			add(*blocks, n, &maps->mappings[i]);
	for (size_t i = 0; i < *n; i++)
		read_header(memory, &(*blocks)[i]);
	return 0;
}

bool blocks_has(const struct maps *maps, uint64_t start, uint64_t end, uint64_t inode)
{
	const struct mapping *first = maps_find(maps, start), *last = maps_find(maps, end - 1);

	return first && last && is_of_block(first) && is_of_block(last) && first->inode == inode &&
	       last->inode == inode;
}

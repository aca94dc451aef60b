/* SPDX-License-Identifier: MIT */
/*
 * The totals of a block: its hits and pairs. A block may be mapped, and be counting, or be a copy. Whoever
 * can write to the process can write to the block: HEADER is a copy that block_check()
 * has found good.
 */
#ifndef INSIDE_TOTALS_H
#define INSIDE_TOTALS_H

#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"
#include "inside/inside.h"

/* The hits of all sites, each summed over the shards. BLOCK is the first byte of the block. */
void totals_hits(const struct block_header *header, const void *block, uint64_t *hits);

/*
 * The totals of pair number PAIR. Starts that are open in threads that are gone are not counted as orphans
 * before another thread takes their slot: see gone_threads.h. Touches only the slots that were used.
 */
void totals_pair(const struct block_header *header, const void *block, uint32_t pair,
		 struct inside_pair *totals);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Sum up the hits and pairs of a block. The block is either mapped, and may still count, or a copy.
 * Whoever can write to the process can write to the block: HEADER is a copy that block_check() has
 * accepted.
 */
#ifndef INSIDE_TOTALS_H
#define INSIDE_TOTALS_H

#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"
#include "inside/inside.h"

/*
 * Set HITS to the hits of all sites, each summed over the shards. BLOCK is the first byte of the
 * block.
 */
void totals_hits(const struct block_header *header, const void *block, uint64_t *hits);

/*
 * Set *TOTALS to the totals of pair number PAIR. Open starts of a thread that has ended count as
 * orphans only when another thread takes the slot: see gone_threads.h. Touches only slots that were
 * used.
 */
void totals_pair(const struct block_header *header, const void *block, uint32_t pair,
		 struct inside_pair *totals);

#endif

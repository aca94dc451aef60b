/* SPDX-License-Identifier: MIT */
/*
 * The totals of a block: its hits and pairs. A block may be mapped, and be counting, or be a copy. Whoever
 * can write to the process can write to the block: check a copy of its header, and use this copy.
 */
#ifndef INSIDE_TOTALS_H
#define INSIDE_TOTALS_H

#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"
#include "inside/inside.h"

/*
 * 0 if HEADER is that of a complete block of which BYTES bytes can be read, and everything that it names
 * lies within them; else -EBADMSG, and no message.
 */
int totals_check(const struct block_header *header, uint64_t bytes);

/* The hits of all sites, each summed over the shards. BLOCK is the first byte of the block. */
void totals_hits(const struct block_header *header, const void *block, uint64_t *hits);

/*
 * The totals of pair number PAIR. Starts that are open in threads that are gone are not counted as orphans
 * before another thread takes their slot: see gone_threads.h. Touches only the slots that were used.
 */
void totals_pair(const struct block_header *header, const void *block, uint32_t pair,
		 struct inside_pair *totals);

#endif

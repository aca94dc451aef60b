/* SPDX-License-Identifier: MIT */
/*
 * Check that attach.c can have written the contents of a block. The owner of the process can write
 * to the block at any moment, and may run this tool as another user. So each reader copies a range
 * once, checks the copy, and takes sizes, offsets and addresses from this copy only.
 */
#ifndef INSIDE_BLOCK_CHECK_H
#define INSIDE_BLOCK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"

/*
 * Return 0 if HEADER is that of a complete block of at most BYTES bytes: all counts are within the
 * bounds of layout.h, and all values that layout_make() derives from the counts are as
 * layout_make() derives them. So all ranges are in their order, below `bytes`. Otherwise return
 * -EBADMSG, without a message.
 */
int block_check(const struct block_header *header, uint64_t bytes);

/* The position of the check in each part: a block has its trampolines in the order of its sites. */
struct block_order {
	/* lowest valid offset of the next trampoline, from the part */
	uint64_t next[BLOCK_MAX_PARTS];
};

void block_order_begin(struct block_order *order, const struct block_header *header);

/*
 * Is SITE valid as site number I of the block with this HEADER, which block_check() has accepted?
 * Call it for the sites in ascending order.
 */
bool block_site_is_sound(struct block_order *order, const struct block_header *header, size_t i,
			 const struct block_site *site);

/* Check all sites. Return 0, or -EBADMSG without a message. */
int block_check_sites(const struct block_header *header, const struct block_site *sites);

#endif

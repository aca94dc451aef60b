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
 * Return 0 if HEADER is the header of a complete block of at most BYTES bytes: all counts are
 * within the bounds of layout.h, and all values that layout_make() derives from the counts are as
 * layout_make() derives them. So all ranges lie in the order of block.h, below header->bytes.
 * Otherwise return -EBADMSG, without a message.
 */
int block_check(const struct block_header *header, uint64_t bytes);

/*
 * How far the check has come in each part. The trampolines of a part lie in the order of their
 * sites.
 */
struct block_order {
	/*
	 * for each part: the lowest valid address that the next site of this part may call, as an
	 * offset from the address of the part
	 */
	uint64_t next[BLOCK_MAX_PARTS];
};

void block_order_begin(struct block_order *order, const struct block_header *header);

/*
 * Return true if SITE is valid as site number I of the block with this HEADER, which block_check()
 * must have accepted. Call this for the sites in ascending order.
 */
bool block_site_is_sound(struct block_order *order, const struct block_header *header, size_t i,
			 const struct block_site *site);

/* Check all sites. Return 0, or -EBADMSG without a message. */
int block_check_sites(const struct block_header *header, const struct block_site *sites);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Is what a block says what attach.c can have written? The owner of the process can write to the block at any
 * moment, and may run this tool as another user. So each reader copies a part once, checks the copy, and uses
 * nothing but this copy for sizes, offsets and addresses.
 */
#ifndef INSIDE_BLOCK_CHECK_H
#define INSIDE_BLOCK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"

/*
 * 0 if HEADER is that of a complete block of at most BYTES bytes: all counts within the bounds of layout.h, and
 * all that layout_make() derives from the counts as layout_make() does. So all ranges lie in their order, below
 * `bytes`. Else -EBADMSG, and no message.
 */
int block_check(const struct block_header *header, uint64_t bytes);

/* The trampolines of sites that were checked, by parts: a block has them in the order of its sites. */
struct block_order {
	uint64_t next[BLOCK_MAX_PARTS]; /* the lowest offset for the next one, from the part */
};

void block_order_begin(struct block_order *order, const struct block_header *header);

/*
 * Can SITE be site number I of the block with this HEADER, which block_check() has found good? The sites are
 * to be given in their order.
 */
bool block_site_is_sound(struct block_order *order, const struct block_header *header, size_t i,
			 const struct block_site *site);

/* The same for all sites: 0 or -EBADMSG, and no message. */
int block_check_sites(const struct block_header *header, const struct block_site *sites);

#endif

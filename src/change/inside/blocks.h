/* SPDX-License-Identifier: MIT */
/*
 * Find the blocks of a process in its maps, copy them out of the process, and check that attach.c
 * can have written their contents. The owner of the process can write to the block at any moment,
 * and may be another user than the user of this tool. So each reader copies a range once, checks
 * the copy, and takes sizes, offsets and addresses from this copy only.
 */
#ifndef CHANGE_INSIDE_BLOCKS_H
#define CHANGE_INSIDE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "change/inside/block.h"
#include "look/maps.h"
#include "look/memory.h"

struct block_found {
	/*
	 * The addresses of a mapping of the block's data. The mapping has this range as its name in
	 * /proc/PID/map_files.
	 */
	uint64_t start, end;
	uint64_t inode;	  /* the inode of the memfd */
	bool is_gone;	  /* the header cannot be read: the block has just been unmapped */
	bool is_complete; /* the header is valid, and all parts of the block are mapped */
	/*
	 * No site calls the block, so it can be removed. This is known in two cases. If the block
	 * has no magic number, no site was ever written for it. If some of its parts are unmapped,
	 * a tool was killed while it unmapped them, which a tool does only after it has restored
	 * all sites. False for a block of another version, which may be in use, and for a block
	 * that is gone.
	 */
	bool is_orphan;
	/*
	 * The header has the magic number and this version, but no tool can have written such a
	 * header.
	 */
	bool is_damaged;
	struct block_header header;
};

/*
 * Find all blocks in MAPS, newest first, and read their headers. The caller frees *BLOCKS. Returns
 * -E2BIG with a message if the process has too many blocks.
 */
int blocks_find(struct ocp_ctx *ctx, const struct memory *memory, const struct maps *maps,
		struct block_found **blocks, size_t *n);

/*
 * Return true if MAPS contains all parts of the block with this HEADER, mapped from the memfd
 * INODE.
 */
bool blocks_has(const struct maps *maps, const struct block_header *header, uint64_t inode);

/* Return true if M maps a block. */
bool blocks_are_in(const struct mapping *m);

/*
 * Return 0 if HEADER is the header of a complete block of at most BYTES bytes: all counts are
 * within the bounds of layout.h, and each value that layout_make() derives from the counts is
 * right. So all ranges lie in the order of block.h, below header->bytes. Otherwise return -EBADMSG,
 * without a message.
 */
int block_check(const struct block_header *header, uint64_t bytes);

/*
 * Check all SITES of the block with this HEADER, which block_check() must have accepted. Return 0,
 * or -EBADMSG without a message.
 */
int block_check_sites(const struct block_header *header, const struct block_site *sites);

/*
 * Copy BYTES bytes, from offset OFF of the block, to TO. HEADER, here and below, is a copy of the
 * header that block_check() has accepted. The range must lie below header->bytes. Return 0, -EFAULT
 * or -ESRCH.
 */
int block_copy(const struct memory *memory, const struct block_header *header, uint64_t off,
	       uint64_t bytes, void *to);

/*
 * Copy the sites of the block to SITES. If SHARED is NULL, copy them out of the process; otherwise
 * SHARED is our own mapping of the block. Check each site after it was copied, and return -EBADMSG,
 * without a message, at the first bad one. So the work is in proportion to the number of sites that
 * the owner of the block has filled in, whatever number is in the header.
 */
int block_copy_sites(const struct memory *memory, const struct block_header *header,
		     const void *shared, struct block_site *sites);

#endif

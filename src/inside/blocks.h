/* SPDX-License-Identifier: MIT */
/* Find the blocks of a process in its maps, and read and check their headers. */
#ifndef INSIDE_BLOCKS_H
#define INSIDE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "inside/block.h"
#include "tracee/maps.h"
#include "tracee/memory.h"

struct block_found {
	/* a mapping of the block's data; this range is its name in /proc/PID/map_files */
	uint64_t start, end;
	uint64_t inode;	  /* inode of the memfd */
	bool is_gone;	  /* the header cannot be read: the block has just been unmapped */
	bool is_complete; /* the header is valid, and all parts of the block are mapped */
	/*
	 * No site calls the block, so it can be removed. Either it has no magic number: then no
	 * site was ever written for it. Or some of its parts are unmapped: then a tool was killed
	 * while it removed the block, which it had begun only after no site called the block any
	 * more. False for a block of another version, which may be in use, and for a block that is
	 * gone.
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

/* Return true if M is a mapping of a block. */
bool blocks_are_in(const struct mapping *m);

#endif

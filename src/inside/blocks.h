/* SPDX-License-Identifier: MIT */
/* Finding the blocks of a process, through /proc alone. */
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
	uint64_t start, end; /* of a mapping of its data; the range names it in map_files */
	uint64_t inode;	     /* of the memfd */
	bool is_gone;	     /* its header cannot be read: it has just been unmapped */
	bool is_complete;    /* its header is valid, and all its parts are mapped */
	/*
	 * It has no magic number, so no site was ever written for it. Or parts of it are gone: a
	 * tool was killed while it removed the block, which a tool does only when no site calls it
	 * any more. False for a block of another version, which may be in use, and for one that is
	 * gone.
	 */
	bool is_orphan;
	/* It has the magic number and this version, but no tool can have written such a header. */
	bool is_damaged;
	struct block_header header;
};

/*
 * Find all blocks in MAPS, newest first, and read their headers. The caller frees *BLOCKS. Returns
 * -E2BIG with a message if the process has too many.
 */
int blocks_find(struct ocp_ctx *ctx, const struct memory *memory, const struct maps *maps,
		struct block_found **blocks, size_t *n);

/* Does MAPS contain all parts of the block with this HEADER, with the same INODE? */
bool blocks_has(const struct maps *maps, const struct block_header *header, uint64_t inode);

/* Is M a mapping of a block? */
bool blocks_are_in(const struct mapping *m);

#endif

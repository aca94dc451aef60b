/* SPDX-License-Identifier: MIT */
/* The blocks of a process, by /proc alone. */
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
	uint64_t start, end; /* in the process; both mappings, and what is between them */
	uint64_t inode;	     /* of the memfd */
	uint64_t first_end;  /* of its first mapping: with START, its name in map_files */
	bool is_gone;	     /* its header cannot be read: it has been unmapped meanwhile */
	bool is_complete;    /* it has a sound header, that of both mappings */
	/*
	 * It has no magic number, so no site was ever written for it. A block of another version of
	 * this tool may be in use, and is neither, as one that is gone.
	 */
	bool is_orphan;
	struct block_header header;
};

/* Those of MAPS; the caller frees *BLOCKS. Reads the headers. */
int blocks_find(struct ocp_ctx *ctx, const struct memory *memory, const struct maps *maps,
		struct block_found **blocks, size_t *n);

/* Does a block with this START and END lie there with the same INODE? */
bool blocks_has(const struct maps *maps, uint64_t start, uint64_t end, uint64_t inode);

#endif

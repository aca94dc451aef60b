/* SPDX-License-Identifier: MIT */
/* Copying a block out of its process, part by part. HEADER is always a copy that block_check() has found good. */
#ifndef INSIDE_BLOCK_COPY_H
#define INSIDE_BLOCK_COPY_H

#include <stdint.h>
#include "inside/block.h"
#include "tracee/memory.h"

/* BYTES at OFF, which block_check() has found to lie below header->bytes. 0, -EFAULT or -ESRCH. */
int block_copy(const struct memory *memory, const struct block_header *header, uint64_t off,
	       uint64_t bytes, void *to);

/*
 * The sites, to SITES: out of the process, or, if SHARED is not NULL, out of our own mapping of the block. Each
 * is checked after it was copied. -EBADMSG, and no message, after the first bad one: so the work is in
 * proportion to what the owner of the block has filled, and not to what the header says.
 */
int block_copy_sites(const struct memory *memory, const struct block_header *header,
		     const void *shared, struct block_site *sites);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Copy a block out of its process, piece by piece. In all functions, HEADER is a copy that
 * block_check() has accepted.
 */
#ifndef INSIDE_BLOCK_COPY_H
#define INSIDE_BLOCK_COPY_H

#include <stdint.h>
#include "inside/block.h"
#include "tracee/memory.h"

/*
 * Copy BYTES bytes, from offset OFF of the block, to TO. block_check() must have found the range to
 * lie below header->bytes. Return 0, -EFAULT or -ESRCH.
 */
int block_copy(const struct memory *memory, const struct block_header *header, uint64_t off,
	       uint64_t bytes, void *to);

/*
 * Copy the sites to SITES: out of the process, or, if SHARED is not NULL, out of our own mapping of
 * the block. Check each site after it was copied, and return -EBADMSG, without a message, at the
 * first bad one. So the work is in proportion to the sites that the owner of the block has filled,
 * and not to the number in the header.
 */
int block_copy_sites(const struct memory *memory, const struct block_header *header,
		     const void *shared, struct block_site *sites);

#endif

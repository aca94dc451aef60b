/* SPDX-License-Identifier: MIT */
/*
 * Divide sites among the parts of a block, compute the sizes and offsets in the block, and choose
 * the addresses of its parts in the process.
 */
#ifndef CHANGE_INSIDE_LAYOUT_H
#define CHANGE_INSIDE_LAYOUT_H

#include <stdint.h>
#include "base/ctx.h"
#include "change/inside/block.h"
#include "change/inside/inside.h"
#include "look/maps.h"

/* The limits of one block. */
enum { LAYOUT_MAX_SITES = 4000000 };
/* The reach of a 32-bit displacement, minus a reserve. A block has at most half this size. */
#define LAYOUT_REACH_BYTES ((UINT64_C(1) << 31) - (1 << 20))
#define LAYOUT_MAX_BYTES   (LAYOUT_REACH_BYTES / 2)
/*
 * The addresses at which a part may lie: neither in the first MiB, nor at a non-canonical address.
 */
#define LAYOUT_FIRST_ADDR (UINT64_C(1) << 20)
#define LAYOUT_END_ADDR	  UINT64_C(0x7ffffff00000)
/* All addresses that a process can use are below this one. */
#define LAYOUT_ADDRESSES (UINT64_C(1) << 47)

/* The parts of a block. Each part serves the sites in a range of addresses. */
struct layout_parts {
	size_t n;
	struct layout_part {
		uint64_t first; /* the lowest address of a site of the part */
		/*
		 * The code of the part must reach all addresses from `low` to `high` with 32-bit
		 * displacements.
		 */
		uint64_t low, high;
	} parts[BLOCK_MAX_PARTS];
};

/*
 * Divide the sites of SPEC into parts. ADDRS are the addresses of the sites in ascending order.
 * Returns -ENOTSUP with a message if there would be too many parts, or if a part would be too far
 * from a semaphore.
 */
int layout_divide(struct ocp_ctx *ctx, const struct inside_spec *spec, const uint64_t *addrs,
		  struct layout_parts *parts);

/* Return the number of the part that serves the site at ADDR. */
size_t layout_part_of(const struct layout_parts *parts, uint64_t addr);

/* Return the largest number of shards for N_SITES sites on any machine. */
uint32_t layout_max_shards(size_t n_sites);

/* Return the largest number of meta bytes for N_SITES sites. */
uint64_t layout_max_meta_bytes(size_t n_sites);

/*
 * Return the number of shards for N_SITES sites on this machine, for a process with a registered
 * struct rseq.
 */
uint32_t layout_n_shards(size_t n_sites);

/*
 * Fill HEADER for SPEC, except magic, addresses and times. On failure return -EINVAL or -E2BIG with
 * a message, and set header->bytes to 0.
 */
int layout_make(struct ocp_ctx *ctx, const struct inside_spec *spec,
		const struct layout_parts *parts, uint32_t n_shards, struct block_header *header);

/* Return true if each of ROLES that belongs to a pair is matched by key. */
bool layout_roles_are_keyed(const struct inside_role *roles, size_t n_roles);

/*
 * Set the values that follow from the counts of HEADER: the stride of the shards, and all offsets
 * up to code_off. The counts must be within their bounds. Writers and checkers of a block both use
 * this function.
 */
void layout_offsets(struct block_header *header);

/* Return the size of the trampoline of SITE. */
size_t layout_trampoline_bytes(uint32_t n_shards, const struct inside_site *site);

/* Return the offset of the first trampoline of a part, from the address of the part. */
uint64_t layout_trampolines_off(const struct block_header *header);

/*
 * Choose the addresses of the parts, and set them in HEADER, which layout_make() has filled for
 * PARTS. Each part is put into the middle of the largest free range from which its code reaches its
 * sites. Returns -ENOTSUP, with a message, if no such range is large enough.
 */
int layout_place(struct ocp_ctx *ctx, const struct maps *maps, const struct layout_parts *parts,
		 struct block_header *header);

#endif

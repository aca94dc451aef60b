/* SPDX-License-Identifier: MIT */
/* Where everything is in a block, and where the block is in the process. */
#ifndef INSIDE_LAYOUT_H
#define INSIDE_LAYOUT_H

#include <stdint.h>
#include "base/ctx.h"
#include "inside/block.h"
#include "inside/inside.h"
#include "tracee/maps.h"

/* The bounds of what one block can serve. */
enum { LAYOUT_MAX_SITES = 4000000, LAYOUT_MAX_META = 256 << 20 };

/*
 * Fill HEADER for SPEC, all but magic, addr and the times. -EINVAL, -E2BIG with a message; `bytes` is 0
 * then.
 */
int layout_make(struct ocp_ctx *ctx, const struct inside_spec *spec, uint32_t n_shards,
		struct block_header *header);

/* Of the first trampoline; from the header. */
uint64_t layout_trampolines_off(const struct block_header *header);

/* All that a block must reach with distances of 32 bits. */
struct layout_reach {
	uint64_t low, high;
};
void layout_reach(const struct inside_spec *spec, struct layout_reach *reach);

/*
 * Set *ADDR to the middle of the largest free part of the address space that is near enough for REACH and
 * has room for BYTES. -ENOTSUP, with a message, if no part has.
 */
int layout_place(struct ocp_ctx *ctx, const struct maps *maps, const struct layout_reach *reach,
		 uint64_t bytes, uint64_t *addr);

#endif

/* SPDX-License-Identifier: MIT */
/* The books of memprof/heap.h with names, and by sites. */
#ifndef MEMPROF_HEAP_SITES_H
#define MEMPROF_HEAP_SITES_H

#include "memprof/code_map.h"
#include "memprof/heap.h"
#include "unwind/frame_names.h"

/* Names what the books have. */
struct heap_names;

/* MAP exists as long as the names. */
int heap_names_open(struct ocp_ctx *ctx, struct code_map *map, struct heap_names **out);
void heap_names_close(struct heap_names *names);

/* The frames of STACK, the outermost first. They exist as long as NAMES, the list until the next call. */
int heap_names_of(struct heap_names *names, const uint64_t *stack, uint32_t depth,
		  const struct named_frame *const **frames, size_t *n);

/* A place in the source that allocates: the innermost frame of stacks. */
struct heap_site {
	const struct named_frame *frame;
	struct heap_stack sum; /* of its stacks: no frames */
};

/* The sites, sorted by live or by allocated words. The caller frees *SITES. */
int heap_sites(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names, bool by_live,
	       struct heap_site **sites, size_t *n);
/* Make those of one place in the *N SITES, of several programs perhaps, one, and sort them so. */
void heap_sites_merge(struct heap_site *sites, size_t *n, bool by_live);

#endif

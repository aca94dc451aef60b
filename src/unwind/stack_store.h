/* SPDX-License-Identifier: MIT */
/* The stacks that bpf/stacks.bpf.h has stored. */
#ifndef UNWIND_STACK_STORE_H
#define UNWIND_STACK_STORE_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "stacks.h"

struct stored_stack {
	uint64_t key;
	enum walk_end end;
	uint32_t n, n_kernel;
	const uint64_t *frames; /* format: walk.h; innermost first; for frame_names_find() */
	const uint64_t *kernel; /* addresses in the kernel, innermost first */
};

/* Descriptors of the maps of bpf/stacks.h. They belong to the caller. */
struct stack_maps {
	int stacks, losses;
};

struct stack_store;

/* Read all stacks that are in MAPS at the time of the call. */
int stack_store_read(struct ocp_ctx *ctx, const struct stack_maps *maps, struct stack_store **out);
void stack_store_free(struct stack_store *store);
/* Return the number of blocks in STORE, at most STACKS_MAX. */
size_t stack_store_size(const struct stack_store *store);

/*
 * Find the stack whose key is KEY. Returns NULL if the stack was missing or incomplete when STORE
 * was read, or if there is no memory. The stack exists as long as STORE.
 */
const struct stored_stack *stack_store_find(const struct stack_store *store, uint64_t key);

/* Set *LOSSES to the losses since the maps were created. Each number is the sum over all CPUs. */
int stack_losses_read(struct ocp_ctx *ctx, const struct stack_maps *maps,
		      struct stack_losses *losses);

#endif

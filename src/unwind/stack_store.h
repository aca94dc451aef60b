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
	const uint64_t *frames; /* of walk.h, the innermost first; frame_names_find names them */
	const uint64_t *kernel; /* addresses, the innermost first */
};

/* Descriptors of the maps of bpf/stacks.h. They belong to the caller. */
struct stack_maps {
	int stacks, losses;
};

struct stack_store;

/* Read the stacks that are there now. */
int stack_store_read(struct ocp_ctx *ctx, const struct stack_maps *maps, struct stack_store **out);
void stack_store_free(struct stack_store *store);
/* The number of blocks in it, of STACKS_MAX. */
size_t stack_store_size(const struct stack_store *store);

/*
 * NULL: it was not there when the stacks were read, or there is no memory. It exists as long as the
 * store.
 */
const struct stored_stack *stack_store_find(const struct stack_store *store, uint64_t key);

/* The sums over all CPUs, up to now. */
int stack_losses_read(struct ocp_ctx *ctx, const struct stack_maps *maps,
		      struct stack_losses *losses);

#endif

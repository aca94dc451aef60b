// SPDX-License-Identifier: MIT
#include "unwind/stack_store.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "kernel/maps.h"

struct stored_block {
	uint64_t key;
	const struct walk_block *read;
	/* The stack whose innermost frames are in this block; NULL if it was not joined yet. */
	struct stored_stack *stack;
};

struct stack_store {
	struct walk_block *read;
	struct stored_block *blocks; /* sorted by key */
	size_t n;
};

static int compare_keys(const void *a, const void *b)
{
	const struct stored_block *x = a, *y = b;

	return COMPARE(x->key, y->key);
}

static struct stored_block *find_block(const struct stack_store *store, uint64_t key)
{
	const struct stored_block wanted = { .key = key };

	return store->n ? bsearch(&wanted, store->blocks, store->n, sizeof(wanted), compare_keys)
			: NULL;
}

/*
 * Join BLOCK and the blocks of its callers: fill STACK, and write the stack's frames to the arrays
 * FRAMES and KERNEL, which have room for the deepest walk. Returns false if one of these blocks is
 * missing or invalid.
 */
static bool join_blocks(const struct stack_store *store, const struct stored_block *block,
			struct stored_stack *stack, uint64_t *frames, uint64_t *kernel)
{
	while (block) {
		const struct walk_block *read = block->read;
		const bool is_kernel = read->info & WALK_IN_KERNEL;
		uint32_t *n = is_kernel ? &stack->n_kernel : &stack->n;
		const uint32_t room = is_kernel ? WALK_KERNEL_DEPTH : WALK_MAX_DEPTH;

		if (read->n > WALK_STORED || read->n > room - *n)
			return false;
		memcpy((is_kernel ? kernel : frames) + *n, read->frames, read->n * sizeof(*frames));
		*n += read->n;
		stack->end = (enum walk_end)(read->info & ~WALK_IN_KERNEL);
		if (!read->callers)
			return stack->end < WALK_ENDS;
		block = find_block(store, read->callers);
	}
	return false;
}

static struct stored_stack *make_stack(const struct stack_store *store,
				       const struct stored_block *block)
{
	uint64_t frames[WALK_MAX_DEPTH], kernel[WALK_KERNEL_DEPTH], *copies;
	struct stored_stack stack = { .key = block->key }, *made;

	if (!join_blocks(store, block, &stack, frames, kernel))
		return NULL;
	made = malloc(sizeof(*made) + (stack.n + stack.n_kernel) * sizeof(*frames));
	if (!made)
		return NULL;
	copies = (uint64_t *)(made + 1);
	memcpy(copies, frames, stack.n * sizeof(*frames));
	memcpy(copies + stack.n, kernel, stack.n_kernel * sizeof(*frames));
	stack.frames = copies;
	stack.kernel = copies + stack.n;
	*made = stack;
	return made;
}

const struct stored_stack *stack_store_find(const struct stack_store *store, uint64_t key)
{
	struct stored_block *block = find_block(store, key);

	if (block && !block->stack)
		block->stack = make_stack(store, block);
	return block ? block->stack : NULL;
}

size_t stack_store_size(const struct stack_store *store)
{
	return store->n;
}

int stack_store_read(struct ocp_ctx *ctx, const struct stack_maps *maps, struct stack_store **out)
{
	struct stack_store *store = calloc(1, sizeof(*store));
	void *keys = NULL, *values = NULL;
	int err =
		store ? map_read_all(ctx, maps->stacks, sizeof(uint64_t), sizeof(struct walk_block),
				     STACKS_MAX, &keys, &values, &store->n)
		      : ctx_no_memory(ctx);

	*out = store;
	if (store) {
		store->read = values;
		store->blocks = calloc(store->n + 1, sizeof(*store->blocks));
		if (!store->blocks && !err)
			err = ctx_no_memory(ctx);
	}
	if (err) {
		free(keys);
		stack_store_free(store);
		*out = NULL;
		return err;
	}
	for (size_t i = 0; i < store->n; i++)
		store->blocks[i] =
			(struct stored_block){ ((uint64_t *)keys)[i], &store->read[i], NULL };
	free(keys);
	qsort(store->blocks, store->n, sizeof(*store->blocks), compare_keys);
	return 0;
}

void stack_store_free(struct stack_store *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < store->n && store->blocks; i++)
		free(store->blocks[i].stack);
	free(store->blocks);
	free(store->read);
	free(store);
}

int stack_losses_read(struct ocp_ctx *ctx, const struct stack_maps *maps,
		      struct stack_losses *losses)
{
	int err = map_sum_counters(maps->losses, losses, sizeof(*losses) / sizeof(losses->full));

	return err ? ctx_error(ctx, err, "cannot read samples: %s", strerror(-err)) : 0;
}

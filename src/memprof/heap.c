// SPDX-License-Identifier: MIT
#include "memprof/heap.h"
#include "base/array.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { FIRST_SLOTS = 1 << 12 };

/* A sampled block that is alive. */
struct live_block {
	uint64_t id; /* 0: the slot is free */
	uint64_t born_ns;
	uint64_t n_samples;
	uint64_t number;
	float objects;
	uint32_t stack;
	uint32_t born_majors;
	uint32_t is_major;
};

struct heap {
	struct ocp_ctx *ctx;
	struct heap_stack *stacks;
	size_t n_stacks;
	/* hash table of stacks: number of the stack + 1; 0: the slot is free */
	uint32_t *stack_slots;
	size_t n_stack_slots;
	struct live_block *blocks; /* hash table of the live blocks, with open addressing */
	size_t n_blocks, n_block_slots;
	size_t n_frames;
	size_t max_blocks, max_stacks, max_frames;
	/*
	 * Factor for hashes: odd and secret, so that the program cannot choose blocks or stacks
	 * that collide.
	 */
	uint64_t key;
	struct heap_totals totals;
	uint64_t number; /* the result of heap_block_number() */
};

int heap_new(struct ocp_ctx *ctx, struct heap **out)
{
	struct heap *h = calloc(1, sizeof(*h));

	*out = h;
	if (!h)
		return ctx_no_memory(ctx);
	h->ctx = ctx;
	h->n_stack_slots = h->n_block_slots = FIRST_SLOTS;
	heap_limit(h, HEAP_BLOCKS, HEAP_STACKS, HEAP_FRAMES);
	if (getrandom(&h->key, sizeof(h->key), GRND_NONBLOCK) < 0)
		h->key = (uintptr_t)h;
	h->key |= 1;
	h->stack_slots = calloc(h->n_stack_slots, sizeof(*h->stack_slots));
	h->blocks = calloc(h->n_block_slots, sizeof(*h->blocks));
	if (h->stack_slots && h->blocks)
		return 0;
	heap_free(h);
	*out = NULL;
	return ctx_no_memory(ctx);
}

void heap_limit(struct heap *h, size_t blocks, size_t stacks, size_t frames)
{
	h->max_blocks = blocks;
	h->max_stacks = stacks;
	h->max_frames = frames;
}

void heap_free(struct heap *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n_stacks; i++)
		free((void *)h->stacks[i].frames);
	free(h->stacks);
	free(h->stack_slots);
	free(h->blocks);
	free(h);
}

/* Hash X. The high bits of the product depend on all bits of X, so mix them into the low bits. */
static uint64_t mix(const struct heap *h, uint64_t x)
{
	x *= h->key;
	return x ^ x >> 32;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static uint64_t hash_frames(const struct heap *h, const uint64_t *frames, uint32_t depth)
{
	uint64_t hash = depth;

	for (uint32_t i = 0; i < depth; i++)
		hash = mix(h, hash + frames[i]);
	return hash;
}

static size_t stack_slot(const struct heap *h, const uint64_t *frames, uint32_t depth)
{
	size_t slot = hash_frames(h, frames, depth) & (h->n_stack_slots - 1);

	for (; h->stack_slots[slot]; slot = (slot + 1) & (h->n_stack_slots - 1)) {
		const struct heap_stack *stack = &h->stacks[h->stack_slots[slot] - 1];

		if (stack->depth == depth &&
		    memcmp(stack->frames, frames, depth * sizeof(*frames)) == 0)
			break;
	}
	return slot;
}

static int grow_stacks(struct heap *h)
{
	struct heap_stack *stacks = array_grow(h->stacks, h->n_stacks, sizeof(*stacks));

	if (!stacks)
		return ctx_no_memory(h->ctx);
	h->stacks = stacks;
	if (2 * h->n_stacks >= h->n_stack_slots) {
		const size_t n = 2 * h->n_stack_slots;
		uint32_t *slots = n ? calloc(n, sizeof(*slots)) : NULL;

		if (!slots)
			return ctx_no_memory(h->ctx);
		free(h->stack_slots);
		h->stack_slots = slots;
		h->n_stack_slots = n;
		for (size_t i = 0; i < h->n_stacks; i++)
			slots[stack_slot(h, h->stacks[i].frames, h->stacks[i].depth)] =
				(uint32_t)i + 1;
	}
	return 0;
}

static int find_stack(struct heap *h, const uint64_t *frames, uint32_t depth, size_t *number)
{
	size_t slot = stack_slot(h, frames, depth);
	uint64_t *copy;
	int err;

	/* If the limits do not permit one more stack, count the block for the empty stack. */
	if (!h->stack_slots[slot] && depth &&
	    (h->n_stacks >= h->max_stacks - 1 || depth > h->max_frames - h->n_frames)) {
		h->totals.other_stacks++;
		depth = 0;
		slot = stack_slot(h, frames, depth);
	}
	*number = h->stack_slots[slot] - (size_t)1;
	if (h->stack_slots[slot])
		return 0;
	err = grow_stacks(h);
	if (err)
		return err;
	copy = calloc(depth + (size_t)1, sizeof(*copy));
	if (!copy)
		return ctx_no_memory(h->ctx);
	memcpy(copy, frames, depth * sizeof(*copy));
	h->n_frames += depth;
	*number = h->n_stacks;
	h->stack_slots[stack_slot(h, frames, depth)] = (uint32_t)++h->n_stacks;
	h->stacks[*number] = (struct heap_stack){ .frames = copy, .depth = depth };
	return 0;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static size_t block_slot(const struct heap *h, uint64_t id)
{
	size_t slot = mix(h, id) & (h->n_block_slots - 1);

	while (h->blocks[slot].id && h->blocks[slot].id != id)
		slot = (slot + 1) & (h->n_block_slots - 1);
	return slot;
}

static int grow_blocks(struct heap *h)
{
	struct live_block *old = h->blocks, *blocks;
	const size_t n_old = h->n_block_slots;

	if (2 * h->n_blocks < n_old)
		return 0;
	blocks = n_old ? calloc(2 * n_old, sizeof(*blocks)) : NULL;
	if (!blocks)
		return ctx_no_memory(h->ctx);
	h->blocks = blocks;
	h->n_block_slots = 2 * n_old;
	for (size_t i = 0; i < n_old; i++)
		if (old[i].id)
			blocks[block_slot(h, old[i].id)] = old[i];
	free(old);
	return 0;
}

/*
 * Free SLOT. A search ends at a free slot, so some blocks behind SLOT would no longer be found:
 * move each of these to the slot that was freed last.
 */
static void remove_block(struct heap *h, size_t slot)
{
	const size_t mask = h->n_block_slots - 1;

	for (size_t i = (slot + 1) & mask; h->blocks[i].id; i = (i + 1) & mask) {
		const size_t wanted = mix(h, h->blocks[i].id) & mask;

		if (((i - wanted) & mask) < ((i - slot) & mask))
			continue;
		h->blocks[slot] = h->blocks[i];
		slot = i;
	}
	h->blocks[slot].id = 0;
	h->n_blocks--;
}

/* ---- events ---------------------------------------------------------------------------------- */

static int enter_allocation(struct heap *h, const struct memprof_event *event, size_t *number)
{
	const double objects = (double)event->n_samples / (double)(event->size + 1);
	const bool is_major = event->kind == MEMPROF_ALLOC_MAJOR;
	struct heap_stack *stack;
	size_t slot;
	int err = find_stack(h, event->stack, event->depth, number);

	if (!err)
		err = grow_blocks(h);
	if (err)
		return err;
	stack = &h->stacks[*number];
	slot = block_slot(h, event->id);
	/*
	 * The library uses each id only once, and never 0, so this event is not from the library.
	 */
	if (!event->id || h->blocks[slot].id) {
		h->totals.unknown++;
		return 0;
	}
	h->number = h->totals.blocks;
	stack->samples += event->n_samples;
	stack->blocks++;
	stack->objects += objects;
	stack->major_samples += is_major ? event->n_samples : 0;
	h->totals.samples += event->n_samples;
	h->totals.blocks++;
	if (h->n_blocks == h->max_blocks) {
		h->totals.left_out++;
		return 0;
	}
	h->blocks[slot] = (struct live_block){ .id = event->id,
					       .born_ns = event->time_ns,
					       .n_samples = event->n_samples,
					       .number = h->number,
					       .objects = (float)objects,
					       .stack = (uint32_t)*number,
					       .born_majors = event->majors,
					       .is_major = is_major };
	h->n_blocks++;
	stack->live_samples += event->n_samples;
	stack->live_blocks++;
	stack->live_objects += (float)objects;
	h->totals.live_samples += event->n_samples;
	h->totals.live_minor_samples += is_major ? 0 : event->n_samples;
	h->totals.live_blocks++;
	return 0;
}

static unsigned int life_class(uint32_t majors)
{
	unsigned int number = majors < 3 ? majors : 3;

	for (uint32_t most = 4; majors > most && number < LIFE_CLASSES - 1; most *= 2)
		number++;
	return number;
}

static void enter_death(struct heap *h, const struct memprof_event *event, size_t slot)
{
	const struct live_block *block = &h->blocks[slot];
	struct heap_stack *stack = &h->stacks[block->stack];
	const uint32_t passed = event->majors - block->born_majors;

	if (block->is_major) {
		stack->major_deaths[life_class(passed)] += block->n_samples;
	} else {
		stack->minor_deaths += block->n_samples;
		h->totals.live_minor_samples -= block->n_samples;
	}
	if (event->time_ns > block->born_ns)
		stack->life_ns +=
			(double)(event->time_ns - block->born_ns) * (double)block->n_samples;
	stack->live_samples -= block->n_samples;
	stack->live_blocks--;
	stack->live_objects -= block->objects;
	h->totals.live_samples -= block->n_samples;
	h->totals.live_blocks--;
	remove_block(h, slot);
}

int heap_enter(struct heap *h, const struct memprof_event *event, size_t *number)
{
	struct live_block *block;
	size_t slot;

	*number = SIZE_MAX;
	h->number = UINT64_MAX;
	if (event->kind <= MEMPROF_ALLOC_MAJOR)
		return enter_allocation(h, event, number);
	slot = block_slot(h, event->id);
	block = &h->blocks[slot];
	if (!event->id || !block->id) {
		h->totals.unknown++;
		return 0;
	}
	*number = block->stack;
	if (event->kind != MEMPROF_PROMOTE) {
		h->number = block->number;
		enter_death(h, event, slot);
	} else if (!block->is_major) {
		h->number = block->number;
		block->is_major = true;
		h->stacks[block->stack].promoted_samples += block->n_samples;
		h->totals.live_minor_samples -= block->n_samples;
	}
	return 0;
}

int heap_mark(const struct heap *h, struct heap_mark *mark)
{
	mark->n = h->n_stacks;
	mark->stacks = calloc(h->n_stacks + 1, sizeof(*mark->stacks));
	if (!mark->stacks)
		return ctx_no_memory(h->ctx);
	if (mark->n)
		memcpy(mark->stacks, h->stacks, mark->n * sizeof(*mark->stacks));
	for (size_t i = 0; i < mark->n; i++)
		mark->stacks[i].frames = NULL;
	return 0;
}

void heap_mark_free(struct heap_mark *mark)
{
	free(mark->stacks);
	*mark = (struct heap_mark){ 0 };
}

uint64_t heap_block_number(const struct heap *h)
{
	return h->number;
}

const struct heap_stack *heap_stacks(const struct heap *h, size_t *n)
{
	*n = h->n_stacks;
	return h->stacks;
}

struct heap_totals heap_totals(const struct heap *h)
{
	return h->totals;
}

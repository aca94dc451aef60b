/* SPDX-License-Identifier: MIT */
/*
 * Stores each stack once, as a chain of blocks of frames. The key of a block is a hash of its
 * frames and of the key of its callers' block. A stack has the same hash in all processes of a
 * program, since frames are places in files. Stacks of a deep recursion differ in their innermost
 * blocks only.
 */
#ifndef STACKS_BPF_H
#define STACKS_BPF_H

#include "walk.bpf.h"
#include "stacks.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct walk_block);
	__uint(max_entries, STACKS_MAX);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct stack_losses);
	__uint(max_entries, 1);
} stack_losses SEC(".maps");

enum { STACK_NO_KERNEL = -1 };

/* What to store of the stack of the current thread. */
struct stack_request {
	__u32 tgid;  /* the process of the thread, as in walk_processes */
	__u32 depth; /* frames in user space, at most; up to WALK_MAX_DEPTH */
	/*
	 * How many of the innermost frames in the kernel are left out; STACK_NO_KERNEL: all of
	 * them.
	 */
	__s32 skip;
};

/* The frames of STACK to store: N frames, from FIRST on. */
struct stack_part {
	struct walk_walked *stack;
	struct stack_losses *lost;
	__u32 first, n;
	__u32 info; /* as in struct walk_block */
	__u32 is_lost;
	__u64 key; /* the key of the block that was stored last */
};

static __always_inline void keep_block(struct stack_part *part, __u64 key)
{
	const struct walk_block *block = &part->stack->block, *known;

	known = bpf_map_lookup_elem(&stacks, &key);
	if (!known) {
		/*
		 * This fails if the map is full, or if another CPU has just stored the same block.
		 */
		bpf_map_update_elem(&stacks, &key, block, 1 /* BPF_NOEXIST */);
		known = bpf_map_lookup_elem(&stacks, &key);
	}
	part->key = key;
	part->is_lost = 1;
	if (!known)
		__sync_fetch_and_add(&part->lost->full, 1);
	else if (known->callers != block->callers || known->n != block->n ||
		 known->info != block->info || known->frames[0] != block->frames[0])
		__sync_fetch_and_add(&part->lost->collisions, 1);
	else
		part->is_lost = 0;
}

/*
 * Store block I of PART; 0 is the outermost one. Returns 1, which ends the loop, if the stack is
 * lost.
 */
static long keep_next_block(__u32 i, struct stack_part *part)
{
	const __u32 end = part->n - i * WALK_STORED;
	const __u32 n = end < WALK_STORED ? end : WALK_STORED;
	struct walk_walked *stack = part->stack;
	struct walk_block *block = &stack->block;
	__u64 hash = walk_hash(walk_hash(0xcbf29ce484222325ULL, part->key), part->info);

	block->callers = part->key;
	block->n = n;
	block->info = part->info;
	block->frames[0] = 0;
	for (__u32 j = 0; j < WALK_STORED && j < n; j++) {
		__u32 at = part->first + end - n + j;

		barrier_var(at); /* use the value that is checked */
		if (at >= WALK_MAX_DEPTH + WALK_KERNEL_DEPTH)
			break;
		block->frames[j] = stack->frames[at];
		hash = walk_hash(hash, stack->frames[at]);
	}
	keep_block(part, hash ? hash : 1);
	return part->is_lost ? 1 : 0;
}

/*
 * Store the frames of STACK. Returns 0, and sets the hash of STACK to the key of its innermost
 * block, or returns -1 if STACK is lost.
 */
static __always_inline int keep_stack(struct walk_walked *stack, struct stack_losses *lost)
{
	struct stack_part part = {
		.stack = stack, .lost = lost, .n = stack->n, .info = stack->end
	};

	bpf_loop(part.n ? (part.n + WALK_STORED - 1) / WALK_STORED : 1, keep_next_block, &part, 0);
	if (!part.is_lost && stack->n_kernel) {
		part.first = WALK_MAX_DEPTH;
		part.n = stack->n_kernel;
		part.info |= WALK_IN_KERNEL;
		bpf_loop((part.n + WALK_STORED - 1) / WALK_STORED, keep_next_block, &part, 0);
	}
	stack->hash = part.key;
	return part.is_lost ? -1 : 0;
}

/* Add the frames of the kernel to STACK, without the innermost SKIP frames. */
static __always_inline void add_kernel_frames(void *ctx, struct walk_walked *stack, __u32 skip)
{
	const long bytes = bpf_get_stack(ctx, &stack->frames[WALK_MAX_DEPTH],
					 WALK_KERNEL_DEPTH * sizeof(*stack->frames), skip);

	if (bytes > 0)
		stack->n_kernel = (__u32)bytes / sizeof(*stack->frames);
}

/*
 * Store the stack of S, which is complete, and set *HASH to its key. Returns 0, or -1 if the stack
 * is lost.
 */
static __always_inline int store_walked(struct walk_scratch *s, struct stack_losses *lost,
					__u64 *hash)
{
	int err;

	if (s->stack.end < WALK_ENDS)
		__sync_fetch_and_add(&lost->ended[s->stack.end], 1);
	err = keep_stack(&s->stack, lost);
	*hash = s->stack.hash;
	return err;
}

/*
 * Walk the stack of the current thread, store it, and set *HASH to its key. Returns 0, or -1 if the
 * stack is lost.
 */
static __always_inline int store_stack(void *ctx, const struct stack_request *request, __u64 *hash)
{
	struct walk_scratch *s = walk_take();
	struct stack_losses *lost;
	__u32 zero = 0;
	int err = -1;

	lost = bpf_map_lookup_elem(&stack_losses, &zero);
	if (s && lost) {
		walk_current(s, request->tgid, request->depth);
		if (request->skip != STACK_NO_KERNEL)
			add_kernel_frames(ctx, &s->stack, (__u32)request->skip);
		err = store_walked(s, lost, hash);
	} else if (lost) {
		__sync_fetch_and_add(&lost->ended[WALK_BUSY], 1);
	}
	if (s)
		walk_release(s);
	return err;
}

#endif

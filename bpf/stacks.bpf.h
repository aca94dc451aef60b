/* SPDX-License-Identifier: MIT */
/*
 * Stores each stack once, as a chain of blocks of frames. The key of a block is a hash of its
 * frames and of the key of the next outer block. A stack has the same key in all processes of a
 * program, since frames are places in files. The stacks of a deep recursion share all blocks except
 * the innermost ones.
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
	__u32 tgid;  /* the id of the process, as in walk_processes */
	__u32 depth; /* the maximum number of frames in user space, up to WALK_MAX_DEPTH */
	/*
	 * How many of the innermost kernel frames to leave out; STACK_NO_KERNEL: store no kernel
	 * frames.
	 */
	__s32 skip;
};

/* A part of `stack` that is stored: the N frames from FIRST on. */
struct stack_part {
	struct walk_walked *stack;
	struct stack_losses *lost;
	__u32 first, n;
	__u32 info; /* for the blocks of this part: see walk_block.info */
	__u32 is_lost;
	__u64 key; /* the key of the block that was stored last */
};

static __always_inline void keep_block(struct stack_part *part, __u64 key)
{
	const struct walk_block *block = &part->stack->block, *known;

	known = bpf_map_lookup_elem(&stacks, &key);
	if (!known) {
		/*
		 * The update fails if the map is full, or if another CPU has just stored the same
		 * block.
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
 * The body of a loop: store block I of PART; block 0 is the outermost one. Returns 1, which ends
 * the loop, if the stack is lost.
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

		barrier_var(at); /* do not compute `at` again after its check */
		if (at >= WALK_MAX_DEPTH + WALK_KERNEL_DEPTH)
			break;
		block->frames[j] = stack->frames[at];
		hash = walk_hash(hash, stack->frames[at]);
	}
	keep_block(part, hash ? hash : 1);
	return part->is_lost ? 1 : 0;
}

/*
 * Store the frames of STACK. Returns 0 and sets stack->hash to the key of the innermost block, or
 * returns -1 if the stack is lost.
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

/* Add the frames in the kernel to STACK, except the innermost SKIP frames. */
static __always_inline void add_kernel_frames(void *ctx, struct walk_walked *stack, __u32 skip)
{
	const long bytes = bpf_get_stack(ctx, &stack->frames[WALK_MAX_DEPTH],
					 WALK_KERNEL_DEPTH * sizeof(*stack->frames), skip);

	if (bytes > 0)
		stack->n_kernel = (__u32)bytes / sizeof(*stack->frames);
}

/*
 * Store s->stack, to which all frames have been added, and set *HASH to its key. Returns 0, or -1
 * if the stack is lost.
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

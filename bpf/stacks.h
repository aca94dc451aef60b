/* SPDX-License-Identifier: MIT */
/*
 * The layout of the maps that stacks.bpf.h shares with its user side (src/unwind/stack_store). The
 * includer provides the __u32 and __u64 types. The maps of the walker are in walk.h.
 *
 *	map           type           key        value
 *	stacks        hash           u64, hash  struct walk_block
 *	stack_losses  per-CPU array  0          struct stack_losses
 */
#ifndef STACKS_H
#define STACKS_H

#include "walk.h"

enum { STACKS_MAX = 1 << 16 }; /* blocks */

struct stack_losses {
	__u64 full;		/* stacks that had no room */
	__u64 collisions;	/* stacks of which a block has the hash of another block */
	__u64 ended[WALK_ENDS]; /* how many walks ended, by enum walk_end */
};

#endif

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

enum { STACKS_MAX = 1 << 16 }; /* the maximum number of blocks in `stacks` */

struct stack_losses {
	__u64 full; /* stacks that were lost because `stacks` had no room */
	/* stacks that were lost because two different blocks have the same hash */
	__u64 collisions;
	__u64 ended[WALK_ENDS]; /* how many walks ended for each reason (enum walk_end) */
};

#endif

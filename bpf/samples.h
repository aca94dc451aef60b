/* SPDX-License-Identifier: MIT */
/*
 * The layout of the maps that profile.bpf.c shares with its user side (src/profile). The includer
 * provides the __u32 and __u64 types. The maps of the walker are in walk.h.
 *
 *	map      type           key                     value
 *	stacks   hash           u64, hash               struct walk_stack
 *	counts   hash           struct profile_key      struct profile_count
 *	waits    hash           u32, global thread id   struct profile_wait
 *	losses   per-CPU array  0                       struct profile_losses
 */
#ifndef SAMPLES_H
#define SAMPLES_H

#include "walk.h"

enum {
	PROFILE_MAX_STACKS = 1 << 14,
	PROFILE_MAX_COUNTS = 1 << 15,
	PROFILE_MAX_WAITS = 1 << 14,
};

struct profile_config {
	/* The pid namespace of process ids (the device as major << 20 | minor); 0: the initial one. */
	__u64 pidns_dev, pidns_ino;
};

struct profile_key {
	__u64 stack;
	__u32 tgid;
	__u32 tid;
};

struct profile_count {
	__u64 n;
	__u64 sum; /* nanoseconds that a thread waited; words in large blocks */
};

/* A thread that waits now. */
struct profile_wait {
	struct profile_key key;
	__u64 since_ns;
};

/*
 * A stack is taken for large blocks each time when so many words have been allocated on a CPU. They
 * all belong to it then.
 */
enum { PROFILE_LARGE_WORDS = 1 << 16 };

/*
 * The cookie of caml_alloc_small_dispatch(): the link-time address of the variable Caml_state with
 * OCaml 4; PROFILE_STATE_IN_RDI if the state is the first argument, with OCaml 5.
 */
#define PROFILE_STATE_IN_RDI 0ULL

struct profile_losses {
	__u64 stacks_full; /* samples whose stack had no room */
	__u64 counts_full; /* samples whose count had no room */
	__u64 waits_full;
	__u64 large_hits;	/* no loss: large blocks that were allocated */
	__u64 collisions;	/* samples whose stack has the hash of another stack */
	__u64 ended[WALK_ENDS]; /* stacks, by enum walk_end */
};

#endif

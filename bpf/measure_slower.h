/* SPDX-License-Identifier: MIT */
/*
 * Slow pairs, shared by the BPF programs (measure_slower.bpf.h) and their user side. Only the
 * object measure_slower has the map:
 *
 *	slow_open    hash           struct slow_key         struct slow_start
 *
 * In this object, `prints` contains struct hit_record, struct slow_record and struct slow_short,
 * which the reader distinguishes by `kind`.
 */
#ifndef MEASURE_SLOWER_H
#define MEASURE_SLOWER_H

#include "args.h"

/*
 * The maximum number of starts whose arguments are kept at the same time; 3 KB each. There are more
 * of them if calls of functions are timed, because recursion can be deep.
 */
enum { SLOW_STARTS = 4096, SLOW_CALLS = 16384 };

/* This bit in slow_key.pair marks the call of a function: value is then its frame. */
#define SLOW_CALL (1U << 31)

/* The key of a start in slow_open. The start need not be open any more. */
struct slow_key {
	/*
	 * by thread: the thread id; by key: the process id; for calls of functions: as in struct
	 * measure_frame_key
	 */
	__u32 owner;
	__u32 pair; /* for calls of functions, with SLOW_CALL */
	/*
	 * by thread: the index of the start in measure_open.ring; by key: the key; for calls of
	 * functions: the frame
	 */
	__u64 value;
};

/* Where a call keeps its return address. User space reads it to see whether the call has ended. */
struct slow_call {
	__u64 at;	      /* the address of the return address when the call began */
	__u64 return_address; /* 0: it could not be read */
	__u64 stack;	      /* the address of the stack of OCaml 5; 0: a stack of the system */
	/* if `stack` is not 0: the address of the domain's state, and the parent of the stack */
	__u64 state;
	__u64 parent; /* 0: the stack is that of a thread, not of a fibre */
};

struct slow_start {
	struct slow_key key; /* all 0: the entry has never been filled in */
	__u64 is_locked;
	__u64 ns;	       /* when the pair began; 0: the entry is not complete */
	struct slow_call call; /* of calls of functions */
	struct hit_record hit;
};

/* A pair that was slow. */
struct slow_record {
	struct hit_record stop;
	__u64 ns; /* how long the pair took, in nanoseconds */
	__u32 pair;
	__u32 has_start;	 /* 0: the arguments of the start were not kept */
	struct hit_record start; /* its ts_ns is the time at which the pair began */
};

/*
 * A slow pair in few bytes: the stop has no arguments, and the start has no text and at most
 * SLOW_SHORT_NODES nodes. This is so for most calls of functions, of which many can end within the
 * time in which the reader gets no processor: a stack of 20 000 calls, for example.
 */
enum { SLOW_SHORT_NODES = 16 };

struct slow_short {
	__u64 stop[HIT_HEAD_WORDS]; /* the head of a struct hit_record */
	__u64 ns;
	__u32 pair;
	__u32 has_start;
	__u64 start[HIT_HEAD_WORDS]; /* the head of a struct hit_record */
	struct value_node nodes[SLOW_SHORT_NODES];
};

_Static_assert(sizeof(struct slow_start) == 72 + sizeof(struct hit_record), "shared by compilers");
_Static_assert(sizeof(struct slow_record) == 16 + 2 * sizeof(struct hit_record),
	       "shared by compilers");
_Static_assert(sizeof(struct slow_short) == 16 + 2 * 8 * HIT_HEAD_WORDS + 24 * SLOW_SHORT_NODES,
	       "shared by compilers");

#endif

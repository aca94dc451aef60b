/* SPDX-License-Identifier: MIT */
/*
 * Pairs inside a process: where the trampolines keep open starts and totals.
 *
 * Each pair has an area: what its threads share, then n_threads slots. The places of a thread are the slot
 * at its id modulo n_threads, and the next slots. A start takes the first of its places that the thread uses
 * already, else the first free place. A slot is free if it has no open start; who used it last does not
 * matter. So a thread that has ended leaves no slot behind, unless it ended in the middle of a span. Such a
 * slot is taken if the kernel says that the thread is gone, and its open starts are orphans. Without a slot,
 * the start is a collision, and its stop an orphan.
 *
 * A slot is taken by one atomic exchange of `state`. While starts are open, only their thread writes to
 * the slot, and without locks. Totals stay where they are and are summed by the reader.
 *
 * The rules of pairing are those of struct measure_open in bpf/measure.h.
 *
 * A pair may be matched by an int argument, the key, and not by thread. Its slot number 0 has the totals of
 * all threads, which change by locked instructions. Behind this slot are its open starts: buckets of
 * PAIRS_BUCKET_KEYS entries, and a key has its place in one bucket. An entry is free if its pid is 0. A start
 * takes it by one atomic exchange of the pid, and writes the key last; a stop takes the key out by one
 * exchange, and then the pid. Whoever takes a key out counts the start, so each start is counted once. The pid
 * is part of the key, as forked children share the block. The C library does not keep it: the threads' pids
 * are kept behind the entries, by thread id.
 *
 * What may go wrong, without harm to the process:
 * - A thread gets the id of one that ended in the middle of a span: it finds its open starts.
 * - Two living threads have the same id for the C library (a raw clone(), or pid namespaces within one
 *   tree of forks): they share a slot, and may lose events of each other.
 * - A signal handler that interrupts a trampoline and hits sites itself: if it leaves all pairs as it found
 *   them, nothing is lost. If it stops a pair that it did not start, it may end the start that it
 *   interrupted.
 */
#ifndef INSIDE_PAIRS_H
#define INSIDE_PAIRS_H

#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"
#include "inside/inside.h"

enum {
	PAIRS_DEPTH = 32,    /* starts that one thread can have open; a power of 2 */
	PAIRS_BUCKETS = 496, /* see measure_bucket_of() */
	PAIRS_WINDOW = 16,   /* places where a thread looks for its slot */
	PAIRS_MAX_THREADS = 65536,
	PAIRS_KEYS_A_THREAD = 8, /* open starts by key for which there is room: for each slot */
	PAIRS_BUCKET_KEYS = 16,
	PAIRS_PIDS = 64, /* a power of 2 */
};

struct pairs_start {
	uint64_t ticks; /* of the time stamp counter */
	uint64_t sp;	/* the stack pointer at the site */
};

struct pairs_slot {
	/* One word, so that it can be exchanged at once. */
	uint32_t tid;  /* whose starts are open; 0: never used */
	uint16_t n;    /* starts that are open: the slot belongs to the thread; 0: it is free */
	uint16_t next; /* modulo PAIRS_DEPTH, the place of the next start */

	uint64_t starts;
	uint64_t sum_ns;
	uint64_t min_ns_not; /* ~ of the smallest, so that 0 means none */
	uint64_t max_ns;
	uint64_t orphan_starts;
	uint64_t unused[2];
	struct pairs_start ring[PAIRS_DEPTH];
	uint64_t buckets[PAIRS_BUCKETS]; /* their sum is the count */
	uint64_t unused_too[8];		 /* whole cache lines, and not a power of 2 */
};

/* What the threads of a pair share: counted with locks, and rarely. */
struct pairs_shared {
	uint64_t orphan_stops;
	uint64_t collisions;
	/*
	 * Of the first pair: a page of a stack whose page below is there, too; the one that was looked at last. The
	 * code alone uses it.
	 */
	uint64_t stack_page;
	uint64_t not_keyed; /* starts whose argument is no int */
	uint64_t is_keyed;  /* 1: matched by key */
	uint64_t unused[3];
	/* A bit for each slot that was ever taken: a reader does not touch the memory of the others. */
	uint64_t used[];
};

/* An open start of a pair by key. */
struct pairs_keyed_start {
	uint32_t pid; /* 0: free */
	uint32_t unused;
	uint64_t key; /* the int as OCaml has it, 2 * N + 1; 0: not written yet, or taken out */
	uint64_t ticks;
	uint64_t unused_too;
};

/* The number of slots for MAX_THREADS threads: more than that, so that they find room; a power of 2. */
uint32_t pairs_n_slots(size_t max_threads);

/* From the beginning of a pair's area to its slots, and to the next pair. Whole cache lines. */
uint64_t pairs_slots_off(uint32_t n_threads);
uint64_t pairs_stride(uint32_t n_threads);

/* The area of pair number PAIR, from the beginning of the block. */
static inline uint64_t pairs_area_off(const struct block_header *header, uint32_t pair)
{
	return header->pairs_off + pair * pairs_stride(header->n_threads);
}

/*
 * The entries of a pair by key: their number, and how far they, and the pids behind them, are from its slots.
 * A pid is above the id of its thread in a word of 64 bits.
 */
uint32_t pairs_n_keys(uint32_t n_threads);
uint64_t pairs_keys_off(void);
uint64_t pairs_pids_off(uint32_t n_threads);

/* Of the pairs of a block; all zeros is the initial state. */
uint64_t pairs_bytes(uint32_t n_pairs, uint32_t n_threads);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Pairs inside a process: where the trampolines keep open starts and totals.
 *
 * Each pair has an area: data that its threads share, then n_threads slots. The window of a thread
 * is the slot at its id modulo n_threads, and the PAIRS_WINDOW - 1 next slots. A start takes the
 * slot of the window that the thread uses already, else the first free one. A slot is free if it
 * has no open start, whichever thread used it last. So a thread that ends leaves its slot free,
 * unless it ends in the middle of a span. The slot of such a thread may be taken by a start once
 * the kernel says that the thread is gone; the open starts in the slot become orphans. A start that
 * gets no slot is a collision, and its stop is an orphan.
 *
 * A slot is taken by one atomic exchange of its first word. While starts are open, only their
 * thread writes to the slot, without locks. Totals stay in their slots; the reader sums them.
 *
 * The rules of pairing are those of struct measure_open in bpf/measure.h.
 *
 * A pair may be matched by an int argument, the key, instead of by thread. Its slot number 0 has
 * the totals of all threads, which change by locked instructions. Behind this slot are its open
 * starts: buckets of PAIRS_BUCKET_KEYS entries, and a key has its place in one bucket. An entry is
 * free if its pid is 0. A start takes it by one atomic exchange of the pid, and writes the key
 * last; a stop takes the key out by one exchange, and then clears the pid. The thread that takes a
 * key out counts the start, so each start is counted once. The pid is part of the key, because
 * forked children share the block. The C library does not store the pid: it is cached behind the
 * entries, by thread id.
 *
 * Errors of the totals that may occur, without harm to the process:
 * - A thread gets the id of a thread that ended in the middle of a span: the new thread finds
 *   the open starts of the ended one.
 * - Two living threads have the same id for the C library (a raw clone(), or pid namespaces within
 *   one tree of forks): they share a slot, and may lose each other's events.
 * - A signal handler that interrupts a trampoline hits sites itself: if it leaves all pairs as it
 *   found them, nothing is lost. If it stops a pair that it did not start, it may end the start
 *   that it interrupted.
 */
#ifndef INSIDE_PAIRS_H
#define INSIDE_PAIRS_H

#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"
#include "inside/inside.h"

enum {
	PAIRS_DEPTH = 32,    /* number of starts that one thread can have open; a power of 2 */
	PAIRS_BUCKETS = 496, /* see measure_bucket_of() */
	PAIRS_WINDOW = 16,   /* number of slots in which a thread looks for its slot */
	PAIRS_MAX_THREADS = 65536,
	PAIRS_KEYS_A_THREAD = 8, /* entries for open starts by key, for each slot */
	PAIRS_BUCKET_KEYS = 16,
	PAIRS_PIDS = 64, /* words of the cache of process ids; a power of 2 */
};

struct pairs_start {
	uint64_t ticks; /* of the time stamp counter */
	uint64_t sp;	/* the stack pointer at the site */
};

struct pairs_slot {
	/* tid, n and next are one word, so that they can be exchanged at once. */
	uint32_t tid; /* thread of the open starts; 0: never used */
	/* number of open starts; 0: the slot is free, otherwise it belongs to thread tid */
	uint16_t n;
	uint16_t next; /* index in `ring` for the next start, modulo PAIRS_DEPTH */

	uint64_t starts;
	uint64_t sum_ns;
	uint64_t min_ns_not; /* ~ of the smallest duration, so that 0 means none yet */
	uint64_t max_ns;
	uint64_t orphan_starts;
	uint64_t unused[2];
	struct pairs_start ring[PAIRS_DEPTH];
	/* histogram of the durations; the sum of the buckets is the count of pairs */
	uint64_t buckets[PAIRS_BUCKETS];
	uint64_t unused_too[8]; /* whole cache lines, and not a power of 2 */
};

/* The data that the threads of a pair share. They change rarely, by locked instructions. */
struct pairs_shared {
	uint64_t orphan_stops;
	uint64_t collisions;
	/*
	 * Used in the first pair only, and by the trampolines' code only: the stack page that was
	 * examined last. The page below it is mapped too.
	 */
	uint64_t stack_page;
	uint64_t not_keyed; /* starts whose argument is not an int */
	uint64_t is_keyed;  /* 1: matched by key */
	uint64_t unused[3];
	/*
	 * A bit for each slot that was ever taken. A reader touches the memory of these slots only.
	 */
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

/*
 * Return the number of slots for MAX_THREADS threads: a power of 2, and at least twice MAX_THREADS
 * (but at most PAIRS_MAX_THREADS), so that threads find a free slot.
 */
uint32_t pairs_n_slots(size_t max_threads);

/*
 * Return the distance in bytes from the beginning of a pair's area to its slots, or to the area of
 * the next pair. Both are whole cache lines.
 */
uint64_t pairs_slots_off(uint32_t n_threads);
uint64_t pairs_stride(uint32_t n_threads);

/* Return the offset of the area of pair number PAIR in the block. */
static inline uint64_t pairs_area_off(const struct block_header *header, uint32_t pair)
{
	return header->pairs_off + pair * pairs_stride(header->n_threads);
}

/*
 * For a pair by key, return the number of its entries, the offset of the entries, and the offset of
 * the words of the pid cache behind them. Both offsets are from the pair's slots. A word of the
 * cache has the pid in its upper half and the thread id in its lower half.
 */
uint32_t pairs_n_keys(uint32_t n_threads);
uint64_t pairs_keys_off(void);
uint64_t pairs_pids_off(uint32_t n_threads);

/* Return the size of all pairs of a block. Their initial state is all zeros. */
uint64_t pairs_bytes(uint32_t n_pairs, uint32_t n_threads);

#endif

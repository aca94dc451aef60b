/* SPDX-License-Identifier: MIT */
/*
 * The block: the memory that a process has mapped for counting inside, and that outlives the tool.
 * It is one memfd, mapped twice by MAP_SHARED: the data (rw-) and, right behind it, the code (r-x).
 *
 * A call reaches 2 GiB, but the distance between a plugin and its program may be larger. Then the
 * block has several parts. Each part is near some of the sites, and consists of a mapping of the
 * data and, right behind it, the code of these sites. All parts map the same data. So the block
 * still has one header, one magic number, and one place for each counter, gate and pair.
 *
 *	struct block_header
 *	struct block_site [n_sites]
 *	uint16_t          [n_sites]	private gates
 *	uint64_t          [n_shards][shard_stride]	counters, by site number. Each shard belongs
 *							to a CPU, except the last: templates_code.c.
 *							Behind those of the sites is one more, of
 *							the hits that a filter has rejected
 *	struct block_mismatches
 *	pairs				see struct pairs_slot
 *	groups				of hits and of times, by a value: see groups.h
 *	rings				of events: see rings.h
 *	meta_bytes			data of the engine, for inside_find(); opaque here
 *	code				of each part: routines, then the trampolines of its sites
 *
 * Any tool finds the block by the name of the memfd in /proc/PID/maps and by the magic number in
 * the header. The magic number is written last: a block without it is an orphan, left by a tool
 * that was killed. Forked children of the process share the block.
 */
#ifndef CHANGE_INSIDE_BLOCK_H
#define CHANGE_INSIDE_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#define BLOCK_NAME "ocaml-probes-inside"	     /* the name of the memfd */
#define BLOCK_PATH "/memfd:" BLOCK_NAME " (deleted)" /* the memfd's name in /proc/PID/maps */
/*
 * The name of the memfd that holds a routine of own_stores.h. The memfd is mapped only until the
 * routine ends. If the tool is killed before the routine begins, the mapping stays until another
 * tool removes it.
 */
#define STORES_NAME "ocaml-probes-stores"
#define STORES_PATH "/memfd:" STORES_NAME " (deleted)"
#define BLOCK_MAGIC UINT64_C(0x656469736e49636f) /* "ocInside" */

enum { BLOCK_VERSION = 11, BLOCK_MAX_PARTS = 8 };

/*
 * A site is the code of a probe, or a window: instructions of a function of which a jump replaces
 * the first five bytes (code/window.h). The trampoline of a window counts, executes copies of the
 * window's instructions, and jumps to the instruction behind the window.
 */

/* What decides whether a trampoline runs the handler of its site. */
enum block_gate {
	/*
	 * The two bytes of the site's semaphore. Used for the providers ocaml_1 and ocaml_2, whose
	 * semaphores tracers do not change.
	 */
	BLOCK_GATE_SEMAPHORE,
	/*
	 * Two bytes of the block, used where the semaphore cannot decide: provider `ocaml` shares
	 * its semaphore with tracers, a site may disagree with its semaphore (enabled_at_init), and
	 * a dormant site has no semaphore.
	 */
	BLOCK_GATE_PRIVATE,
	BLOCK_GATE_NONE, /* the site is a window: there is no handler */
};

/*
 * The last step done to a site in the process for which the block was made. To find out whether a
 * site counts, read its bytes: a forked child shares the block, but has its own copy of the sites.
 */
enum block_patched { BLOCK_UNPATCHED, BLOCK_PATCHING, BLOCK_PATCHED };

struct block_site {
	uint64_t addr; /* the address of the nop of the site, or of the window, in the process */
	/* the address that the site calls, in the process: the entry of its trampoline */
	uint64_t trampoline;
	/*
	 * the address of the gate's two bytes in the process; private gates are in the first part.
	 * 0 if the site is a window.
	 */
	uint64_t gate_addr;
	/*
	 * the original displacement of the site, which leads to the wrapper of the handler; of a
	 * window, the original bytes 1 to 4
	 */
	uint32_t displacement;
	/* the original opcode of the site: 0x3d (off) or 0xe8 (on); of a window, the first byte */
	uint8_t opcode;
	uint8_t gate;	    /* the kind of the gate: enum block_gate */
	uint8_t is_patched; /* enum block_patched: set before the site is written */
	/*
	 * the opcode that a routine of own_stores.h writes; 0: skip the site. Of a window: 1 if the
	 * window is to be written.
	 */
	uint8_t store;
};

struct block_part {
	/*
	 * the address of the data in the process; the code of the part is at addr + code_off of
	 * struct block_header
	 */
	uint64_t addr;
	/* the offset of the part's code in the memfd: the end of the previous part's code */
	uint64_t code_off;
	uint64_t code_bytes; /* the size of the part's code, in whole pages */
};

struct block_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;
	uint64_t bytes; /* the size of the whole block */
	uint64_t addr;	/* the address of the first part in the process */
	/*
	 * The offset of the code, a multiple of the page size. This and all other offsets are from
	 * the start of the header.
	 */
	uint64_t code_off;
	uint64_t code_bytes; /* the size of the code of all parts */
	uint64_t sites_off, gates_off, counters_off, pairs_off, groups_off, rings_off, meta_off;
	uint64_t meta_bytes;
	uint32_t n_sites, n_pairs;
	uint32_t n_shards;
	uint32_t n_threads; /* the number of slots of each pair: a power of 2 */
	/* the number of starts that a thread can have open in a pair: 1 to PAIRS_DEPTH */
	uint32_t depth;
	/* the process id of the tool that made the block, in the tool's own pid namespace */
	uint32_t maker;
	/*
	 * The rings of events: their number, a power of 2, and the number and size of the slots of
	 * each. All are 0 if no events are recorded.
	 */
	uint32_t n_rings, ring_slots, slot_bytes;
	uint32_t n_groups; /* 0: neither hits nor times are grouped */
	uint32_t n_times;  /* the number of struct value_times; 0: times are not grouped */
	/* 1: all pairs are matched by key, so each area has only the slots for totals */
	uint32_t pairs_are_keyed;
	/* the number of counters from the start of a shard to the start of the next */
	uint64_t shard_stride;
	/* length of a tick, 32.32 fixed point; 0: neither pairs nor events have times */
	uint64_t ns_per_tick;
	int64_t start_ns;     /* the time of CLOCK_MONOTONIC at the attach */
	uint64_t start_ticks; /* the value of the time stamp counter at the attach */
	uint64_t n_parts;
	struct block_part parts[BLOCK_MAX_PARTS]; /* in ascending order of their addresses */
};

/*
 * The hits in which an argument is not an int, and the filter could not judge the hit for this
 * reason.
 */
struct block_mismatches {
	uint64_t n;
	uint64_t last; /* block_mismatch() of one of the last ones */
	uint64_t unused[6];
};

enum { BLOCK_MISMATCH_SITE_BITS = 22 };

/*
 * Combine the number of a site with inside_filter_op.arg, a number below 256. The result is below
 * 2^31.
 */
static inline uint32_t block_mismatch(uint32_t site, uint8_t arg)
{
	return (uint32_t)arg << BLOCK_MISMATCH_SITE_BITS | site;
}

/* Return the number of the counter, in each shard, of the hits that a filter has rejected. */
static inline uint32_t block_rejected(const struct block_header *header)
{
	return header->n_sites;
}

/* Return the offset in the block of struct block_mismatches, which is behind the counters. */
static inline uint64_t block_mismatches_off(const struct block_header *header)
{
	return header->counters_off + header->n_shards * header->shard_stride * sizeof(uint64_t);
}

/*
 * Pairs inside a process: where the trampolines keep open starts and totals.
 *
 * Each pair has an area: data that its threads share, then n_threads slots (fewer if all pairs of
 * the block are matched by key, see below). The window of a thread
 * is the slot at its id modulo n_threads, and the PAIRS_WINDOW - 1 next slots. A start takes the
 * slot of the window that the thread uses already, else the first free slot. A slot is free if it
 * has no open start, whichever thread used it last. So a thread that ends leaves its slot free,
 * unless it has open starts. In this case, another thread may take the slot once the kernel says
 * that the thread is gone; the open starts in the slot become orphans. A start that gets no slot is
 * a collision, and its stop is an orphan.
 *
 * A slot is taken by one atomic exchange of its first word. While starts are open, only their
 * thread writes to the slot, without locks. Totals stay in their slots; the reader sums them.
 *
 * The rules of pairing are those of struct measure_open in bpf/measure.h.
 *
 * A pair may be matched by a key instead of by thread. The key is an int argument, or the frame of
 * a call plus 1; a frame is a multiple of 8. The first pairs_n_totals() slots of such a pair have
 * totals. A thread takes the slot at its id modulo their number if no thread has taken this slot
 * before, and keeps it. The other threads share slot 0, which changes by locked instructions, and
 * whose tid is PAIRS_SHARED. Behind these slots are the open starts of the pair: buckets of
 * PAIRS_BUCKET_KEYS entries. The key determines the bucket. An entry is free if its pid is 0. A
 * start takes the first free entry of the bucket by one atomic exchange of the pid, and writes the
 * key last. So a search for a key ends at the first entry that was never used. A stop takes the key
 * out of the entry by one exchange, and then clears the pid. The thread that takes a key out counts
 * the start, so each start is counted once. The pid is part of the key, because forked children
 * share the block. The C library keeps the thread id of each thread, but no pid. So a cache behind
 * the areas has the pid for each thread id.
 *
 * If the key is a frame, the thread that takes the first entry of a bucket keeps it: it is the
 * owner, and uses the entry again without locks, since no other thread writes to an entry with an
 * owner, except to take a key out. A lock would cost as much as the rest of the start. The other
 * entries of a bucket are free again after the stop, so that the bucket has room for other threads.
 *
 * Errors of the totals that may occur, without harm to the process:
 * - A thread gets the id of a thread that ended with open starts: the new thread finds the open
 *   starts of the ended one.
 * - Two living threads have the same id for the C library (a raw clone(), or pid namespaces within
 *   one tree of forks): they share a slot, and may lose each other's events.
 * - A signal handler that interrupts a trampoline hits sites itself. If it stops only pairs that
 *   it has started, nothing is lost. If it stops another pair, it may end the start that it has
 *   interrupted.
 */

#define PAIRS_SHARED UINT32_MAX /* no thread has this id */

enum {
	PAIRS_DEPTH = 32,    /* how many starts a thread can have open in a pair; a power of 2 */
	PAIRS_BUCKETS = 496, /* see measure_bucket_of() */
	PAIRS_WINDOW = 16,   /* number of slots in which a thread looks for its slot */
	PAIRS_MAX_THREADS = 65536,
	PAIRS_THREADS_A_TOTAL = 4, /* the number of slots for each slot of a pair by key */
	PAIRS_KEYS_A_THREAD = 48,  /* for each slot, the number of entries for open starts by key */
	PAIRS_BUCKET_KEYS = 16,
	PAIRS_PIDS = 64, /* words of the cache of process ids; a power of 2 */
};

struct pairs_start {
	uint64_t ticks; /* the value of the time stamp counter at the start */
	/* the stack pointer at the site that started; at a window, the frame: inside_role.key */
	uint64_t sp;
};

/* `ticks` of a start that a filter has rejected: its stop finds it, but it is not counted. */
enum { PAIRS_REJECTED = 0 };

struct pairs_slot {
	/* tid, n and next form one word, so that one instruction can exchange all three. */
	uint32_t tid; /* the thread that made the open starts; 0: the slot was never used */
	/*
	 * The number of open starts. If it is 0, the slot is free; otherwise the slot belongs to
	 * the thread tid.
	 */
	uint16_t n;
	uint16_t next; /* the index in `ring`, modulo PAIRS_DEPTH, for the next start */

	uint64_t starts;
	uint64_t sum_ns;
	/* the complement (~) of the smallest duration, so that 0 means: none yet */
	uint64_t min_ns_not;
	uint64_t max_ns;
	uint64_t orphan_starts;
	uint64_t unused[2];
	struct pairs_start ring[PAIRS_DEPTH];
	/* A histogram of the durations. The sum of the buckets is the number of completed pairs. */
	uint64_t buckets[PAIRS_BUCKETS];
	/*
	 * If the times are grouped: for each start in `ring`, the number of its struct value_times.
	 * The size is a number of whole cache lines that is not a power of 2.
	 */
	uint32_t times[PAIRS_DEPTH];
};

/*
 * Data that the threads of a pair share. Threads change these members rarely, by locked
 * instructions.
 */
struct pairs_shared {
	uint64_t orphan_stops;
	uint64_t collisions;
	/*
	 * The stack page that the code of the trampolines examined most recently: the page below it
	 * is mapped, too. Only this code uses this member, and only in the first pair.
	 */
	uint64_t stack_page;
	uint64_t not_keyed; /* starts whose argument is not an int */
	uint64_t is_keyed;  /* 1: starts and stops are matched by key; 0: by thread */
	uint64_t unused[3];
	/*
	 * A bit for each slot, set when a thread takes the slot for the first time. A reader
	 * touches the memory of these slots only.
	 */
	uint64_t used[];
};

/* An open start of a pair that is matched by key. */
struct pairs_keyed_start {
	uint32_t pid;	   /* the process of the start; 0: the entry is free */
	uint32_t was_used; /* 0: the entry was never taken, nor were those behind it */
	/* the key, an int in OCaml's form 2 * N + 1; 0: not written yet, or taken out */
	uint64_t key;
	uint64_t ticks;
	uint32_t times; /* as in struct pairs_slot */
	/* the thread that keeps the entry, the first one of its bucket; 0: none keeps it */
	uint32_t owner;
};

/*
 * Return the number of slots for MAX_THREADS threads: a power of 2, and at least twice MAX_THREADS
 * (but at most PAIRS_MAX_THREADS), so that threads find a free slot.
 */
uint32_t pairs_n_slots(size_t max_threads);

/*
 * Return the distance in bytes from the beginning of a pair's area to its slots or, for the second
 * function, to the area of the next pair. Both distances are whole cache lines.
 */
uint64_t pairs_slots_off(uint32_t n_threads);
uint64_t pairs_stride(const struct block_header *header);

/* Return the number of slots in the area of each pair. */
uint32_t pairs_n_in_area(const struct block_header *header);

/*
 * Return the offset in the block of the area of pair number PAIR. Initially, all bytes of all areas
 * are zero.
 */
static inline uint64_t pairs_area_off(const struct block_header *header, uint32_t pair)
{
	return header->pairs_off + pair * pairs_stride(header);
}

/*
 * For a pair that is matched by key: return the number of its slots for totals, a power of 2; the
 * number of its entries; and the offset of the entries from the pair's slots.
 */
uint32_t pairs_n_totals(uint32_t n_threads);
uint32_t pairs_n_keys(uint32_t n_threads);
uint64_t pairs_keys_off(uint32_t n_threads);

/*
 * Return the offset in the block of the PAIRS_PIDS words of the pid cache, behind the areas of all
 * pairs. A word has the pid in its upper half and the thread id in its lower half.
 */
static inline uint64_t pairs_pids_off(const struct block_header *header)
{
	return pairs_area_off(header, header->n_pairs);
}

#endif

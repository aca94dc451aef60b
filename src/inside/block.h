/* SPDX-License-Identifier: MIT */
/*
 * The block: the memory that a process has mapped for counting inside, and that outlives the tool.
 * One memfd, MAP_SHARED twice, one mapping right behind the other: data (rw-), then code (r-x).
 *
 * A call reaches 2 GiB, and a plugin may lie further than that from its program. In this case the
 * block has several parts. Each part is near some of the sites, and consists of a mapping of the
 * data and, right behind it, the code of these sites. All parts map the same data. So the block
 * still has one header, one magic number, and one place for each counter, gate and pair.
 *
 *	struct block_header
 *	struct block_site [n_sites]
 *	uint16_t          [n_sites]	private gates
 *	uint64_t          [n_shards][shard_stride]	counters, by site number. Each shard belongs
 *							to a CPU, except the last: templates_code.c
 *	pairs				see pairs.h
 *	meta_bytes			data of the engine, for inside_find(); opaque here
 *	code				of each part: routines, then the trampolines of its sites
 *
 * Any tool finds the block by the name of the memfd in /proc/PID/maps and by the magic number in
 * the header. The magic number is written last: a block without it is an orphan, left by a tool
 * that was killed. Forked children of the process share the block.
 */
#ifndef INSIDE_BLOCK_H
#define INSIDE_BLOCK_H

#include <stdint.h>

#define BLOCK_NAME "ocaml-probes-inside"	     /* name of the memfd */
#define BLOCK_PATH "/memfd:" BLOCK_NAME " (deleted)" /* the memfd's name in /proc/PID/maps */
/*
 * Name of the memfd that holds a routine of stores.h. The memfd is mapped only until the end of the
 * routine. If the tool is killed before the routine begins, the mapping stays until another tool
 * removes it.
 */
#define STORES_NAME "ocaml-probes-stores"
#define STORES_PATH "/memfd:" STORES_NAME " (deleted)"
#define BLOCK_MAGIC UINT64_C(0x656469736e49636f) /* "ocInside" */

enum { BLOCK_VERSION = 3, BLOCK_MAX_PARTS = 8 };

/* What decides whether the handler of a site runs. */
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
};

/*
 * The last step done to a site in the process for which the block was made. To find out whether a
 * site counts, read its bytes: a forked child shares the block, but has its own copy of the sites.
 */
enum block_patched { BLOCK_UNPATCHED, BLOCK_PATCHING, BLOCK_PATCHED };

struct block_site {
	uint64_t addr; /* address of the nop, in the process */
	/* address in the process that the site calls: the entry of its trampoline */
	uint64_t trampoline;
	/* address of the gate's two bytes in the process; a private gate is in the first part */
	uint64_t gate_addr;
	uint32_t displacement; /* the original displacement, which leads to the wrapper */
	uint8_t opcode;	       /* the original opcode: 0x3d (off) or 0xe8 (on) */
	uint8_t gate;	       /* enum block_gate */
	uint8_t is_patched;    /* enum block_patched: set before the site is written */
	uint8_t store;	       /* the opcode that a stores.h routine writes; 0: skip the site */
};

struct block_part {
	/* address of the data in the process; the code is at addr + block_header.code_off */
	uint64_t addr;
	/* offset of the code in the memfd: right behind the previous part's code */
	uint64_t code_off;
	uint64_t code_bytes; /* whole pages */
};

struct block_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;
	uint64_t bytes; /* size of the whole block */
	uint64_t addr;	/* address of the first part in the process */
	/* offset of the code, a multiple of the page size; all offsets count from the header */
	uint64_t code_off;
	uint64_t code_bytes; /* code of all parts */
	uint64_t sites_off, gates_off, counters_off, pairs_off, meta_off;
	uint64_t meta_bytes;
	uint32_t n_sites, n_pairs;
	uint32_t n_shards;
	uint32_t n_threads;    /* slots of each pair: a power of 2 */
	uint32_t depth;	       /* 1 to PAIRS_DEPTH */
	uint32_t maker;	       /* process id of the tool, in the tool's own pid namespace */
	uint64_t shard_stride; /* number of counters from one shard to the next */
	uint64_t ns_per_tick;  /* 32.32 fixed point; 0: pairs are not timed */
	int64_t start_ns;      /* CLOCK_MONOTONIC at the attach */
	uint64_t start_ticks;  /* the time stamp counter at the attach */
	uint64_t n_parts;
	struct block_part parts[BLOCK_MAX_PARTS]; /* in ascending order of their addresses */
};

#endif

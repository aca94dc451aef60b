/* SPDX-License-Identifier: MIT */
/* A block in the test's own process, whose trampolines the test calls. */
#ifndef TESTS_UNIT_INSIDE_CODE_H
#define TESTS_UNIT_INSIDE_CODE_H

#include <linux/rseq.h>
#include <stdint.h>
#include "change/inside/block.h"
#include "change/inside/inside.h"
#include "change/inside/templates.h"

enum { CODE_MAX_SITES = 8 };

struct code_spec {
	uint32_t n_sites, n_pairs, n_groups, n_shards, n_threads, depth;
	uint32_t n_rings, ring_slots, slot_bytes;
	bool groups_times;
	uint64_t ns_per_tick;
	/* The id of the thread is in code_fake_tid, and not the C library's. */
	bool fakes_tids;
	bool fakes_rseq; /* ... and struct rseq is code_fake_rseq, which the kernel does not know */
	bool may_call_kernel;
	struct inside_role roles[CODE_MAX_SITES][4];
	size_t n_roles[CODE_MAX_SITES];
	const struct inside_filter *filters[CODE_MAX_SITES]; /* NULL: none */
	/* The site is a window, which consists of a return: call it, too. It may change r11. */
	bool is_window[CODE_MAX_SITES];
	uint16_t *gates; /* of the sites; NULL: those of the block */
};

/* The sites of code_pair_spec(). LEAP stops and starts pair 0, OTHER_ENTER starts pair 1. */
enum { ENTER, EXIT, OTHER_ENTER, LEAP };

/* Fake ids: of a thread that lives, and one above all ids that the kernel gives. */
enum { LIVE = 1, GONE = 5000000 };

/* Two pairs that are timed in ticks. */
struct code_spec code_pair_spec(uint32_t n_threads, uint32_t depth);

struct code_block {
	char *block; /* what is mapped: data, then code */
	struct block_header header;
	uint64_t trampolines[CODE_MAX_SITES];
	struct templates_process process;
};

/* Aborts if it fails. */
struct code_block *code_block_new(const struct code_spec *spec);
void code_block_free(struct code_block *block);

uint16_t *code_gate(struct code_block *block, uint32_t site);
struct pairs_slot *code_slot(struct code_block *block, uint32_t pair, uint32_t place);
uint64_t code_hits(struct code_block *block, uint32_t site);
struct inside_filtered code_filtered(struct code_block *block);
/* A filter that rejects all hits. */
extern const struct inside_filter code_rejects_all;
struct inside_pair code_pair(struct code_block *block, uint32_t pair);

/* Entry number PLACE of PAIR, which is matched by key. */
struct pairs_keyed_start *code_key(struct code_block *block, uint32_t pair, uint32_t place);

/* Starts that are open, in all slots of PAIR, or by key. */
uint64_t code_open(struct code_block *block, uint32_t pair);

/* The slot of this thread in PAIR; NULL: none. */
struct pairs_slot *code_own_slot(struct code_block *block, uint32_t pair, uint32_t tid);

extern __thread int32_t code_fake_tid;
extern __thread struct rseq code_fake_rseq;
extern uint64_t code_wrapper_runs; /* of the wrapper that all sites have */

/* Call a trampoline as a site does. */
void code_hit(uint64_t trampoline);

/*
 * ... with all registers random, and BELOW bytes deeper in the stack. False if a register changed.
 */
bool code_hit_checked(uint64_t trampoline, uint64_t below);

/* ... that of a window, which may change r11 */
bool code_hit_window(uint64_t trampoline, uint64_t below);

/* ... with VALUE in register REG, as the processor numbers them. */
bool code_hit_register(uint64_t trampoline, uint32_t reg, uint64_t value);

/* ... on the stack that ends at RSP, to which the site's call pushes its return address. */
void code_hit_on(uint64_t trampoline, void *rsp);

/* ... with random vector registers. */
bool code_hit_vectors(uint64_t trampoline);

/* ... with a SIGTRAP after each instruction. */
void code_hit_stepped(uint64_t trampoline);

/* Was the code of BLOCK interrupted? CONTEXT is that of the signal handler. */
bool code_is_at(const struct code_block *block, const void *context);

#endif

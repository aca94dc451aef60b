// SPDX-License-Identifier: MIT
/* Pairs inside a process: signal handlers that hit sites, and slots that hold nonsense. */
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include "inside_code.h"
#include "unit.h"

static struct code_block *stepped_block;
static uint64_t n_steps;

/* After each instruction of a trampoline: hit sites of the same pair. */
static void hit_in_between(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (!code_is_at(stepped_block, context))
		return;
	n_steps++;
	code_hit(stepped_block->trampolines[ENTER]);
	code_hit(stepped_block->trampolines[EXIT]);
}

/* If ARE_WINDOWS, the sites are windows of functions. */
static void interrupt_pairs(bool are_windows)
{
	struct sigaction action = { .sa_sigaction = hit_in_between, .sa_flags = SA_SIGINFO }, old;
	struct code_spec spec = code_pair_spec(16, 4);
	struct inside_pair totals;

	for (uint32_t i = 0; are_windows && i < spec.n_sites; i++) {
		spec.is_window[i] = true;
		for (size_t r = 0; r < spec.n_roles[i]; r++) {
			spec.roles[i][r].is_framed = true;
			spec.roles[i][r].key = (struct inside_place){ INSIDE_FRAME, 8 };
		}
	}

	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	n_steps = 0;
	stepped_block = code_block_new(&spec);
	for (int i = 0; i < 8; i++) {
		code_hit_stepped(stepped_block->trampolines[ENTER]);
		code_hit_stepped(stepped_block->trampolines[ENTER]);
		code_hit_stepped(stepped_block->trampolines[EXIT]);
		code_hit_stepped(stepped_block->trampolines[EXIT]);
		code_hit_stepped(stepped_block->trampolines[LEAP]);
		code_hit_stepped(stepped_block->trampolines[EXIT]);
	}
	sigaction(SIGTRAP, &old, NULL);
	totals = code_pair(stepped_block, 0);
	assert_true(n_steps > 2400);
	assert_int_equal(code_hits(stepped_block, ENTER), 16 + n_steps);
	assert_int_equal(code_hits(stepped_block, EXIT), 24 + n_steps);
	assert_int_equal(code_hits(stepped_block, LEAP), 8);
	assert_int_equal(totals.starts, 24 + n_steps);
	assert_int_equal(totals.count, 24 + n_steps);
	assert_int_equal(totals.orphan_starts, 0);
	assert_int_equal(totals.orphan_stops, 8); /* of LEAP */
	assert_int_equal(code_open(stepped_block, 0), 0);
	code_block_free(stepped_block);
}

TEST(signal_handlers_may_hit_sites)
{
	interrupt_pairs(false);
}

TEST(signal_handlers_may_hit_functions)
{
	interrupt_pairs(true);
}

/*
 * One signal at each instruction of a start that looks for a slot, or of the stop. The handler
 * frees an earlier slot, so that the thread can get two slots: the handler takes the one, and the
 * start the other.
 */
static uint64_t act_at;
static struct pairs_slot *to_free;

static void free_and_hit(int number, siginfo_t *info, void *context)
{
	const uint64_t pc = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if (pc < stepped_block->trampolines[0] - templates_routines_bytes() ||
	    pc >= stepped_block->header.addr + stepped_block->header.bytes || n_steps++ != act_at)
		return;
	if (to_free)
		to_free->n = 0;
	code_hit(stepped_block->trampolines[ENTER]);
	code_hit(stepped_block->trampolines[EXIT]);
}

static void own_all_slots(uint32_t owner, uint32_t n_busy)
{
	for (uint32_t i = 0; i < 16; i++) {
		struct pairs_slot *slot = code_slot(stepped_block, 0, i);

		slot->tid = owner;
		slot->n = i < n_busy;
	}
}

/* N_BUSY slots of the window belong to OWNER. Every STRIDE-th instruction is interrupted. */
static void step_through_search(uint32_t n_busy, uint32_t owner, bool frees, uint64_t stride)
{
	struct code_spec spec = code_pair_spec(16, 4);
	struct inside_pair totals;
	uint64_t rounds = 0;

	spec.fakes_tids = true;
	stepped_block = code_block_new(&spec);
	code_fake_tid = 16 * 1000;
	for (act_at = 0; !rounds || n_steps > act_at; act_at += stride) {
		own_all_slots(owner, n_busy);
		to_free = frees ? code_slot(stepped_block, 0, (uint32_t)(act_at / stride % n_busy))
				: NULL;
		n_steps = 0;
		code_hit_stepped(stepped_block->trampolines[ENTER]);
		code_hit_stepped(stepped_block->trampolines[EXIT]);
		rounds += n_steps > act_at;
		assert_true(rounds);
	}
	totals = code_pair(stepped_block, 0);
	assert_true(rounds > 4);
	assert_int_equal(code_hits(stepped_block, ENTER), totals.starts);
	assert_int_equal(totals.count, totals.starts);
	assert_in_range(totals.starts, 2 * rounds, 2 * rounds + 1);
	assert_int_equal(totals.collisions + totals.orphan_stops, 0);
	code_block_free(stepped_block);
}

TEST(signal_handlers_may_take_slots)
{
	struct sigaction action = { .sa_sigaction = free_and_hit, .sa_flags = SA_SIGINFO }, old;

	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	step_through_search(0, LIVE, false, 2);
	step_through_search(15, LIVE, false, 61);
	step_through_search(15, LIVE, true, 23);
	step_through_search(16, GONE, false, 97);
	sigaction(SIGTRAP, &old, NULL);
}

/* Whatever a process writes into its slots, the code writes nowhere else. */
TEST(hostile_slots_are_harmless)
{
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block = code_block_new(&spec);
	const uint32_t tid = (uint32_t)gettid();

	srand(3);
	for (int i = 0; i < 20000; i++) {
		struct pairs_slot *slot = code_slot(block, 0, (uint32_t)rand() % 16);

		slot->tid = rand() % 4 ? tid : (uint32_t)rand();
		slot->n = (uint16_t)rand();
		slot->next = (uint16_t)rand();
		slot->ring[rand() % PAIRS_DEPTH].ticks = (uint64_t)rand() << 33;
		assert_true(code_hit_checked(block->trampolines[rand() % 2 ? ENTER : EXIT], 0));
	}
	/* The neighbours: the last slot is followed by the area of the other pair. */
	assert_int_equal(code_pair(block, 1).starts, 0);
	assert_int_equal(code_pair(block, 1).collisions + code_pair(block, 1).orphan_stops, 0);
	for (uint32_t i = 0; i < 16; i++) {
		const struct pairs_slot none = { 0 };

		assert_memory_equal(code_slot(block, 1, i), &none, sizeof(none));
		assert_memory_equal(code_slot(block, 0, i)->unused, none.unused,
				    sizeof(none.unused));
		assert_memory_equal(code_slot(block, 0, i)->times, none.times, sizeof(none.times));
	}
	code_block_free(block);
}

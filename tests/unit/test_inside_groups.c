// SPDX-License-Identifier: MIT
/* Groups of hits by a value inside a process: the trampolines against a model. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "change/inside/groups.h"
#include "inside_code.h"
#include "unit.h"

/* The numbers of registers, as the processor has them. */
enum { RAX, RCX, RDX, RBX, RBP = 5, RSI, RDI, R8, R15 = 15 };

/* The sites: two of group 0, one of group 1, and one of group 0 with a filter. */
enum { FIRST, SECOND, OTHER, FILTERED, N_SITES };

static struct code_spec group_spec(int64_t reg)
{
	struct code_spec spec = { .n_sites = N_SITES, .n_groups = 2, .n_shards = 1 };

	for (int i = 0; i < N_SITES; i++) {
		spec.roles[i][0] = (struct inside_role){ .has_group = true,
							 .group = i == OTHER,
							 .key = { INSIDE_REGISTER, reg } };
		spec.n_roles[i] = 1;
	}
	return spec;
}

static uint64_t as_ocaml(int64_t value)
{
	return (uint64_t)value * 2 + 1;
}

/* Read group number NUMBER of BLOCK. The caller frees group->values. */
static void read_group(struct code_block *block, uint32_t number, struct inside_group *group)
{
	group->values = calloc(groups_n_entries(block->header.n_groups), sizeof(*group->values));
	assert_non_null(group->values);
	groups_read(&block->header, block->block, number, group);
}

static uint64_t hits_of(const struct inside_group *group, int64_t value)
{
	uint64_t hits = 0;

	for (size_t i = 0; i < group->n; i++)
		if (group->values[i].value == value)
			hits += group->values[i].hits;
	return hits;
}

static uint64_t all_hits(const struct inside_group *group)
{
	uint64_t hits = group->others + group->not_ints;

	for (size_t i = 0; i < group->n; i++)
		hits += group->values[i].hits;
	return hits;
}

/* The argument in each register, and values up to the largest and smallest ints. */
TEST(hits_are_counted_by_value)
{
	static const int64_t values[] = { 0, 1, -1, 7, 1000, INT64_MAX >> 1, INT64_MIN >> 1 };
	enum { N_VALUES = sizeof(values) / sizeof(values[0]) };

	for (int64_t reg = RAX; reg <= R15; reg++) {
		struct code_spec spec = group_spec(reg);
		struct code_block *block;
		struct inside_group group;

		if (reg == 4) /* rsp */
			continue;
		spec.n_shards = 1 + (uint32_t)reg % 2;
		block = code_block_new(&spec);
		for (uint32_t i = 0; i < N_VALUES; i++)
			for (uint32_t n = 0; n <= i; n++) {
				const uint64_t value = as_ocaml(values[i]);
				const uint32_t r = (uint32_t)reg;

				assert_true(code_hit_register(block->trampolines[FIRST], r, value));
				assert_true(
					code_hit_register(block->trampolines[SECOND], r, value));
				assert_true(code_hit_register(block->trampolines[OTHER], r, value));
			}
		assert_true(code_hit_register(block->trampolines[SECOND], (uint32_t)reg, 0x1000));
		for (uint32_t number = 0; number < 2; number++) {
			read_group(block, number, &group);
			assert_int_equal(group.n, N_VALUES);
			assert_int_equal(group.others, 0);
			assert_int_equal(group.not_ints, !number);
			for (uint32_t i = 0; i < N_VALUES; i++)
				assert_int_equal(hits_of(&group, values[i]),
						 (i + 1) * (2 - number));
			free(group.values);
		}
		code_block_free(block);
	}
}

TEST(values_can_be_on_the_stack_or_constants)
{
	struct code_spec spec = group_spec(RBX);
	struct code_block *block;
	struct inside_group group;

	spec.roles[OTHER][0].key = (struct inside_place){ INSIDE_CONSTANT, (int64_t)as_ocaml(42) };
	/* Code calls the trampoline: at the stack pointer is the address to return to. */
	spec.roles[FIRST][0].key = (struct inside_place){ INSIDE_STACK, 0 };
	block = code_block_new(&spec);
	for (int i = 0; i < 5; i++) {
		assert_true(code_hit_checked(block->trampolines[OTHER], 0));
		assert_true(code_hit_checked(block->trampolines[FIRST], 0));
	}
	read_group(block, 1, &group);
	assert_int_equal(hits_of(&group, 42), 5);
	assert_int_equal(all_hits(&group), 5);
	free(group.values);
	read_group(block, 0, &group);
	assert_int_equal(all_hits(&group), 5);
	free(group.values);
	code_block_free(block);
}

/* A value that found no room at its first hit has none later; the others are complete. */
TEST(values_without_room_are_others)
{
	struct code_spec spec = group_spec(RDX);
	struct code_block *block = code_block_new(&spec);
	const size_t room = groups_n_entries(2);
	const int64_t n = 3 * (int64_t)room;
	struct inside_group group;
	uint64_t known = 0;

	for (int round = 0; round < 2; round++)
		for (int64_t i = 0; i < n; i++)
			assert_true(code_hit_register(block->trampolines[FIRST], RDX,
						      as_ocaml(i * 12345)));
	read_group(block, 0, &group);
	assert_in_range(group.n, room * 9 / 10, room);
	for (size_t i = 0; i < group.n; i++) {
		assert_int_equal(group.values[i].hits, 2);
		known += 2;
	}
	assert_int_equal(group.others, 2 * (uint64_t)n - known);
	free(group.values);
	read_group(block, 1, &group);
	assert_int_equal(all_hits(&group), 0);
	free(group.values);
	code_block_free(block);
}

TEST(many_groups_have_little_room)
{
	assert_int_equal(groups_n_entries(1), 32768);
	assert_int_equal(groups_n_entries(2), 16384);
	assert_int_equal(groups_n_entries(512), 64);
	assert_int_equal(groups_n_entries(100000), 64);
}

/* Hits that a filter rejects are in no group, of sites and of windows. */
TEST(rejected_hits_are_in_no_group)
{
	const struct inside_filter above_3 = { .n_ops = 1,
					       .ops = { { .comparison = INSIDE_GT,
							  .place = { INSIDE_REGISTER, RBX },
							  .number = 3 } } };

	for (int is_window = 0; is_window < 2; is_window++) {
		struct code_spec spec = group_spec(RBX);
		struct code_block *block;
		struct inside_group group;

		spec.filters[FILTERED] = &above_3;
		spec.is_window[FILTERED] = is_window;
		block = code_block_new(&spec);
		for (int64_t i = 0; i < 10; i++)
			code_hit_register(block->trampolines[FILTERED], RBX, as_ocaml(i));
		read_group(block, 0, &group);
		assert_int_equal(group.n, 6);
		for (int64_t i = 0; i < 10; i++)
			assert_int_equal(hits_of(&group, i), i > 3);
		assert_int_equal(code_hits(block, FILTERED), 6);
		assert_int_equal(code_filtered(block).rejected, 4);
		free(group.values);
		code_block_free(block);
	}
}

/* Windows read the argument, and change r11 only. */
TEST(windows_are_grouped)
{
	struct code_spec spec = group_spec(RAX);
	struct code_block *block;
	struct inside_group group;

	spec.is_window[FIRST] = true;
	spec.roles[FIRST][0].key = (struct inside_place){ INSIDE_CONSTANT, (int64_t)as_ocaml(-5) };
	block = code_block_new(&spec);
	for (uint64_t below = 0; below < 4096; below += 8)
		assert_true(code_hit_window(block->trampolines[FIRST], below));
	read_group(block, 0, &group);
	assert_int_equal(hits_of(&group, -5), 512);
	assert_int_equal(all_hits(&group), 512);
	free(group.values);
	code_block_free(block);
}

/* ---- at the same time ----------------------------------------------------------------------- */

static struct code_block *shared_block;
static uint64_t n_steps;

/* After each instruction of a trampoline: hit the same group, with the same value and others. */
static void hit_in_between(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (!code_is_at(shared_block, context))
		return;
	code_hit_register(shared_block->trampolines[SECOND], RDI, as_ocaml(1));
	code_hit_register(shared_block->trampolines[SECOND], RDI, as_ocaml((int64_t)n_steps));
	n_steps++;
}

TEST(signal_handlers_may_hit_the_group)
{
	struct sigaction action = { .sa_sigaction = hit_in_between, .sa_flags = SA_SIGINFO }, old;
	struct code_spec spec = group_spec(RDI);
	struct inside_group group;

	spec.roles[FIRST][0].key = (struct inside_place){ INSIDE_CONSTANT, (int64_t)as_ocaml(1) };
	spec.roles[FILTERED][0].key = (struct inside_place){ INSIDE_CONSTANT, 0x1000 };
	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	n_steps = 0;
	shared_block = code_block_new(&spec);
	for (int i = 0; i < 20; i++)
		code_hit_stepped(shared_block->trampolines[FIRST]);
	code_hit_stepped(shared_block->trampolines[FILTERED]);
	sigaction(SIGTRAP, &old, NULL);
	assert_true(n_steps > 20 * 20);
	read_group(shared_block, 0, &group);
	/* One of the handlers' other values is 1, too. */
	assert_int_equal(hits_of(&group, 1), 20 + n_steps + 1);
	for (uint64_t i = 0; i < n_steps; i++)
		assert_true(i == 1 || hits_of(&group, (int64_t)i) == 1);
	assert_int_equal(group.n, n_steps);
	assert_int_equal(group.others, 0);
	assert_int_equal(group.not_ints, 1);
	free(group.values);
	code_block_free(shared_block);
}

/* Call the trampoline of a site with VALUE in rcx, as fast as possible. Keep off the red zone. */
static void hit_rcx(uint64_t trampoline, uint64_t value)
{
	__asm__ volatile("sub	$128, %%rsp\n"
			 "	call	*%0\n"
			 "	add	$128, %%rsp\n"
			 :
			 : "r"(trampoline), "c"(value)
			 : "memory", "cc");
}

/*
 * In each round, all threads hit the same values, which are more than there is room for, each
 * thread in another order, in a group that is empty at first.
 */
enum { N_THREADS = 4, N_ROUNDS = 400, N_VALUES = 80, HITS_OF_VALUE = 200, N_BUCKETS = 4 };

/*
 * The number of rounds that have begun, and the number of times that a thread has ended one. The
 * threads poll them, so that they begin at the same moment.
 */
static int begun_rounds, ended_rounds;

static void await_number(const int *number, int least)
{
	while (__atomic_load_n(number, __ATOMIC_ACQUIRE) < least)
		sched_yield();
}

static int64_t few_buckets[N_VALUES]; /* values of the first N_BUCKETS buckets */

static void find_values(void)
{
	size_t n = 0;

	for (int64_t value = 0; n < N_VALUES; value++) {
		const uint64_t mixed = as_ocaml(value) * UINT64_C(0x9e3779b97f4a7c15) >> 32;

		if (mixed * groups_n_buckets(2) >> 32 < N_BUCKETS)
			few_buckets[n++] = value;
	}
}

static void *hit_in_rounds(void *thread)
{
	/* They have no factor in common with N_VALUES, so all values are hit. */
	static const int64_t steps[N_THREADS] = { 1, 3, 7, 9 };
	const int64_t step = steps[(uintptr_t)thread];

	for (int round = 0; round < N_ROUNDS; round++) {
		await_number(&begun_rounds, round + 1);
		for (int64_t i = 0; i < N_VALUES * HITS_OF_VALUE; i++)
			hit_rcx(shared_block->trampolines[i % 2 ? FIRST : SECOND],
				as_ocaml(few_buckets[i * step % N_VALUES]));
		__atomic_fetch_add(&ended_rounds, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void check_round(const struct inside_group *group)
{
	const size_t room = N_BUCKETS * GROUPS_BUCKET_VALUES;
	uint64_t known = 0;

	assert_in_range(group->n, room / 2, room);
	for (int64_t i = 0; i < N_VALUES; i++) {
		const uint64_t hits = hits_of(group, few_buckets[i]);

		if (hits)
			assert_int_equal(hits, N_THREADS * HITS_OF_VALUE);
		known += hits != 0;
	}
	assert_int_equal(known, group->n);
	assert_int_equal(all_hits(group), N_THREADS * HITS_OF_VALUE * N_VALUES);
}

/* Threads take entries of the same buckets, and change the same numbers, at the same time. */
TEST(threads_share_a_group)
{
	struct code_spec spec = group_spec(RCX);
	pthread_t threads[N_THREADS];
	struct inside_group group;

	find_values();
	begun_rounds = ended_rounds = 0;
	shared_block = code_block_new(&spec);
	for (uintptr_t i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hit_in_rounds, (void *)i), 0);
	for (int round = 0; round < N_ROUNDS; round++) {
		memset(shared_block->block + groups_group_off(&shared_block->header, 0), 0,
		       sizeof(struct group) +
			       N_BUCKETS * GROUPS_BUCKET_VALUES * sizeof(struct group_entry));
		__atomic_store_n(&begun_rounds, round + 1, __ATOMIC_RELEASE);
		await_number(&ended_rounds, (round + 1) * N_THREADS);
		read_group(shared_block, 0, &group);
		check_round(&group);
		free(group.values);
	}
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	code_block_free(shared_block);
}

/* ---- what others write to the block --------------------------------------------------------- */

/* Nonsense in all groups: the code stays within them, and the reader has at most as many values. */
TEST(nonsense_in_groups_is_harmless)
{
	struct code_spec spec = group_spec(RSI);
	struct code_block *block = code_block_new(&spec);
	const struct block_header *header = &block->header;
	uint8_t *data = (uint8_t *)block->block, *before;
	const uint64_t end = header->groups_off + groups_bytes(header);
	struct inside_group group;

	srand(5);
	for (uint64_t i = header->groups_off + sizeof(struct groups_shared); i < end; i++)
		data[i] = (uint8_t)rand();
	before = malloc(header->groups_off);
	assert_non_null(before);
	memcpy(before, data, header->groups_off);
	for (int i = 0; i < 20000; i++)
		assert_true(code_hit_register(block->trampolines[OTHER], RSI,
					      (uint64_t)rand() << 32 ^ (uint64_t)rand() << 1 ^
						      (uint64_t)i));
	/* Only the counter of the site has changed before the groups. */
	*(uint64_t *)(void *)(data + header->counters_off + OTHER * sizeof(uint64_t)) -= 20000;
	assert_memory_equal(before, data, header->groups_off);
	assert_true(header->rings_off == end);
	read_group(block, 1, &group);
	/* Half of the values are odd, as ints are. */
	assert_in_range(group.n, groups_n_entries(2) / 3, groups_n_entries(2) * 2 / 3);
	free(group.values);
	free(before);
	code_block_free(block);
}

/* ---- the end of the stack ------------------------------------------------------------------- */

enum { STACK_BYTES = 64 << 10, STEP = 16 };

/*
 * Hit a site deeper and deeper in the stack, until one hit finds no room there: only the lowest 128
 * bytes of a page are examined.
 */
static void *hit_down_to_the_end(void *block)
{
	for (uint64_t below = STEP, others = 0; !others && below < STACK_BYTES; below += STEP) {
		struct inside_group group;

		assert_true(
			code_hit_checked(((struct code_block *)block)->trampolines[FIRST], below));
		read_group(block, 0, &group);
		others = group.others;
		assert_int_equal(hits_of(&group, 1) + others, below / STEP);
		assert_int_equal(code_hits(block, FIRST), below / STEP);
		free(group.values);
	}
	return NULL;
}

TEST(hits_at_the_end_of_the_stack_are_others)
{
	struct code_spec spec = group_spec(RSI);
	struct inside_group group;
	struct code_block *block;
	pthread_attr_t attributes;
	pthread_t thread;
	uint8_t *stack = mmap(NULL, 2 * STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	spec.may_call_kernel = true;
	spec.roles[FIRST][0].key = (struct inside_place){ INSIDE_CONSTANT, (int64_t)as_ocaml(1) };
	block = code_block_new(&spec);
	assert_true(stack != MAP_FAILED);
	assert_int_equal(mprotect(stack + STACK_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(pthread_attr_init(&attributes), 0);
	assert_int_equal(pthread_attr_setstack(&attributes, stack + STACK_BYTES, STACK_BYTES), 0);
	assert_int_equal(pthread_create(&thread, &attributes, hit_down_to_the_end, block), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attributes);
	read_group(block, 0, &group);
	assert_int_equal(group.others, 1);
	free(group.values);
	munmap(stack, 2 * STACK_BYTES);
	code_block_free(block);
}

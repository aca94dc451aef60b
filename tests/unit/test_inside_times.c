// SPDX-License-Identifier: MIT
/* Groups of times by a value inside a process: the trampolines against a model. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "change/inside/groups.h"
#include "inside_code.h"
#include "unit.h"

/*
 * The sites of pair 0, by thread; of pair 1, by a key; and one that ends pair 0 and starts it
 * again.
 */
enum { START, STOP, KEY_START, KEY_STOP, FILTERED, LEAP_ON, N_SITES };
enum { RBX = 3, N_VALUES = 50 };

static uint64_t as_ocaml(int64_t value)
{
	return (uint64_t)value * 2 + 1;
}

/* The value is in rbx at the starts. */
static struct code_spec times_spec(uint32_t n_threads)
{
	const struct inside_role start = { .is_grouped = true, .value = { INSIDE_REGISTER, RBX } },
				 stop = { .is_grouped = true, .is_stop = true },
				 key_start = { .pair = 1,
					       .group = 1,
					       .is_grouped = true,
					       .value = { INSIDE_REGISTER, RBX },
					       .is_keyed = true,
					       .key = { INSIDE_CONSTANT, 15 } },
				 key_stop = { .pair = 1,
					      .group = 1,
					      .is_grouped = true,
					      .is_stop = true,
					      .is_keyed = true,
					      .key = { INSIDE_CONSTANT, 15 } };

	return (struct code_spec){
		.n_sites = N_SITES,
		.n_pairs = 2,
		.n_groups = 2,
		.groups_times = true,
		.n_shards = 2,
		.n_threads = n_threads,
		.depth = 4,
		.ns_per_tick = UINT64_C(1) << 32, /* nanoseconds are ticks */
		.may_call_kernel = true,
		.roles = { { start },
			   { stop },
			   { key_start },
			   { key_stop },
			   { start },
			   { stop, start } },
		.n_roles = { 1, 1, 1, 1, 1, 2 },
	};
}

static void hit(struct code_block *block, uint32_t site, int64_t value)
{
	assert_true(code_hit_register(block->trampolines[site], RBX, as_ocaml(value)));
}

/* What groups_read_times() says of a pair. */
struct seen {
	uint64_t counts[N_VALUES]; /* of the values 0 to N_VALUES - 1 */
	uint64_t n_values, count, sum_ns, max_ns, min_ns_not, others, not_ints;
	uint64_t n_not_ints; /* groups */
};

static void see(void *data, const struct inside_times *times)
{
	struct seen *seen = data;
	uint64_t n = 0;

	for (size_t i = 0; i < PAIRS_BUCKETS; i++)
		n += times->buckets[i];
	assert_int_equal(n, times->count);
	assert_true(n && times->sum_ns >= n * ~times->min_ns_not &&
		    times->sum_ns <= n * times->max_ns);
	seen->count += n;
	seen->sum_ns += times->sum_ns;
	if (times->max_ns > seen->max_ns)
		seen->max_ns = times->max_ns;
	if (times->min_ns_not > seen->min_ns_not)
		seen->min_ns_not = times->min_ns_not;
	if (times->is_others)
		seen->others += n;
	else if (!times->is_int)
		seen->not_ints += n;
	else
		seen->n_values++;
	seen->n_not_ints += !times->is_int && !times->is_others;
	if (times->is_int && times->value >= 0 && times->value < N_VALUES)
		seen->counts[times->value] += n;
}

/* See the groups of PAIR. Together they are what the pair has. */
static struct seen see_pair(struct code_block *block, uint32_t pair)
{
	const struct inside_pair totals = code_pair(block, pair);
	struct seen seen = { 0 };

	groups_read_times(&block->header, block->block, pair, pair, see, &seen);
	assert_int_equal(seen.count, totals.count);
	assert_int_equal(seen.sum_ns, totals.sum_ns);
	assert_int_equal(seen.max_ns, totals.max_ns);
	if (totals.count)
		assert_int_equal(~seen.min_ns_not, totals.min_ns);
	return seen;
}

/* The value is that of the start, whatever the stop has, by thread and by key. */
TEST(times_are_of_the_value_at_the_start)
{
	const struct code_spec spec = times_spec(16);
	struct code_block *block = code_block_new(&spec);

	for (int64_t value = 0; value < N_VALUES; value++)
		for (int64_t n = 0; n <= value; n++) {
			hit(block, START, value);
			hit(block, STOP, 1000);
			hit(block, KEY_START, value);
			hit(block, KEY_STOP, 1000);
		}
	for (uint32_t pair = 0; pair < 2; pair++) {
		const struct seen seen = see_pair(block, pair);

		assert_int_equal(seen.n_values, N_VALUES);
		assert_int_equal(seen.others + seen.not_ints, 0);
		for (uint64_t value = 0; value < N_VALUES; value++)
			assert_int_equal(seen.counts[value], value + 1);
	}
	code_block_free(block);
}

/* Nested starts, up to the depth and beyond: the newest is ended first. */
TEST(nested_starts_keep_their_values)
{
	const struct code_spec spec = times_spec(16);
	struct code_block *block = code_block_new(&spec);
	struct seen seen;

	for (int round = 0; round < 10; round++) {
		for (int64_t value = 0; value < 6; value++)
			hit(block, START, value);
		for (int n = 0; n < 6; n++)
			hit(block, STOP, 0);
	}
	seen = see_pair(block, 0);
	assert_int_equal(code_pair(block, 0).orphan_starts, 20);
	for (int64_t value = 0; value < 6; value++)
		assert_int_equal(seen.counts[value], value < 2 ? 0 : 10);
	/* A site that ends a pair and starts the next one. */
	for (int64_t value = 10; value < 20; value++)
		hit(block, LEAP_ON, value);
	hit(block, STOP, 0);
	seen = see_pair(block, 0);
	for (int64_t value = 10; value < 20; value++)
		assert_int_equal(seen.counts[value], 1);
	code_block_free(block);
}

TEST(values_that_are_no_ints_are_one_group)
{
	const struct code_spec spec = times_spec(16);
	struct code_block *block = code_block_new(&spec);

	for (uint64_t value = 0; value < 1000; value++) {
		assert_true(code_hit_register(block->trampolines[START], RBX, value * 8));
		hit(block, STOP, 0);
		assert_true(code_hit_register(block->trampolines[KEY_START], RBX, value * 8));
		hit(block, KEY_STOP, 0);
	}
	for (uint32_t pair = 0; pair < 2; pair++) {
		const struct seen seen = see_pair(block, pair);

		assert_int_equal(seen.not_ints, 1000);
		assert_int_equal(seen.n_not_ints, 1);
		assert_int_equal(seen.n_values + seen.others, 0);
	}
	code_block_free(block);
}

/* The first values have times of their own, and keep them. */
TEST(values_without_room_are_the_others)
{
	const struct code_spec spec = times_spec(16);
	struct code_block *block = code_block_new(&spec);
	struct seen seen;

	for (int round = 0; round < 2; round++)
		for (int64_t value = 0; value < 2 * GROUPS_MOST_TIMES; value++) {
			hit(block, START, value);
			hit(block, STOP, 0);
		}
	seen = see_pair(block, 0);
	assert_int_equal(seen.n_values, GROUPS_MOST_TIMES);
	assert_int_equal(seen.others, 2 * GROUPS_MOST_TIMES);
	for (int64_t value = 0; value < N_VALUES; value++)
		assert_int_equal(seen.counts[value], 2);
	/* There is none left for the other pair. */
	hit(block, KEY_START, 1);
	hit(block, KEY_STOP, 1);
	assert_int_equal(see_pair(block, 1).others, 1);
	code_block_free(block);
}

/* A start that the filter rejects is in no group, and takes no room. */
TEST(rejected_starts_are_in_no_group)
{
	const struct inside_filter above_3 = { .n_ops = 1,
					       .ops = { { .comparison = INSIDE_GT,
							  .place = { INSIDE_REGISTER, RBX },
							  .number = 3 } } };
	struct code_spec spec = times_spec(16);
	const struct groups_shared *shared;
	struct code_block *block;
	struct seen seen;

	spec.filters[FILTERED] = &above_3;
	block = code_block_new(&spec);
	for (int64_t value = 0; value < 10; value++) {
		hit(block, FILTERED, value);
		hit(block, STOP, 0);
	}
	seen = see_pair(block, 0);
	assert_int_equal(seen.n_values, 6);
	for (int64_t value = 0; value < 10; value++)
		assert_int_equal(seen.counts[value], value > 3);
	shared = (void *)(block->block + block->header.groups_off);
	assert_int_equal(shared->times_used, 6);
	code_block_free(block);
}

/* The code keeps all registers, wherever the stack is. */
TEST(registers_are_kept)
{
	const struct code_spec spec = times_spec(16);
	struct code_block *block = code_block_new(&spec);

	for (uint64_t below = 0; below < 4096; below += 8)
		for (uint32_t site = 0; site < N_SITES; site++)
			assert_true(code_hit_checked(block->trampolines[site], below));
	see_pair(block, 0);
	see_pair(block, 1);
	code_block_free(block);
}

/* ---- at the same time ----------------------------------------------------------------------- */

static struct code_block *shared_block;

enum { N_THREADS = 4, N_ROUNDS = 3000 };

static void *time_values(void *data)
{
	(void)data;
	for (int64_t i = 0; i < N_ROUNDS; i++) {
		hit(shared_block, START, i % N_VALUES);
		hit(shared_block, STOP, 0);
		/* Any thread may end what another one has started. */
		hit(shared_block, KEY_START, i % N_VALUES);
		hit(shared_block, KEY_STOP, 0);
	}
	return NULL;
}

TEST(threads_share_the_times)
{
	const struct code_spec spec = times_spec(16);
	pthread_t threads[N_THREADS];
	struct inside_pair totals;
	struct seen seen;

	shared_block = code_block_new(&spec);
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, time_values, NULL), 0);
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	seen = see_pair(shared_block, 0);
	for (int64_t value = 0; value < N_VALUES; value++)
		assert_int_equal(seen.counts[value], N_THREADS * N_ROUNDS / N_VALUES);
	seen = see_pair(shared_block, 1);
	totals = code_pair(shared_block, 1);
	assert_int_equal(seen.others + seen.not_ints, 0);
	assert_int_equal(totals.count + totals.orphan_starts + code_open(shared_block, 1),
			 N_THREADS * N_ROUNDS);
	code_block_free(shared_block);
}

static uint64_t n_steps;

/* After each instruction of a trampoline: time a value of its own. */
static void time_in_between(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (!code_is_at(shared_block, context))
		return;
	hit(shared_block, START, 1);
	hit(shared_block, STOP, 1);
	n_steps++;
}

TEST(signal_handlers_may_time_the_pair)
{
	struct sigaction action = { .sa_sigaction = time_in_between, .sa_flags = SA_SIGINFO }, old;
	struct code_spec spec = times_spec(16);
	struct seen seen;

	spec.roles[LEAP_ON][1].value =
		(struct inside_place){ INSIDE_CONSTANT, (int64_t)as_ocaml(2) };
	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	n_steps = 0;
	shared_block = code_block_new(&spec);
	for (int i = 0; i < 20; i++)
		code_hit_stepped(shared_block->trampolines[LEAP_ON]);
	code_hit_stepped(shared_block->trampolines[STOP]);
	sigaction(SIGTRAP, &old, NULL);
	assert_true(n_steps > 20 * 60);
	seen = see_pair(shared_block, 0);
	/* The handlers end their own starts only, so all times have the right value. */
	assert_int_equal(seen.n_values + seen.others + seen.not_ints, 2);
	assert_int_equal(seen.counts[1], n_steps);
	assert_int_equal(seen.counts[2], 20);
	code_block_free(shared_block);
}

/* ---- what others write to the block --------------------------------------------------------- */

/* Nonsense in the numbers of times, where starts, keys and groups have them, is harmless. */
TEST(nonsense_numbers_are_harmless)
{
	const struct code_spec spec = times_spec(16);
	struct code_block *block = code_block_new(&spec);
	const struct block_header *header = &block->header;
	struct group *group = (void *)(block->block + groups_group_off(header, 1));
	struct seen seen = { 0 };

	srand(7);
	for (int i = 0; i < 20000; i++) {
		struct group_entry *entry =
			(struct group_entry *)(group + 1) + (size_t)rand() % groups_n_entries(2);

		for (uint32_t place = 0; place < 16; place++)
			for (uint32_t n = 0; n < PAIRS_DEPTH; n++)
				code_slot(block, 0, place)->times[n] = (uint32_t)rand() * 3U;
		code_key(block, 1, (uint32_t)rand() % 16)->times = (uint32_t)rand() * 3U;
		entry->times = (uint64_t)rand() << 20;
		assert_true(code_hit_checked(block->trampolines[rand() % N_SITES], 0));
	}
	/* The page behind the times, before the code: nothing was added there. */
	for (uint64_t at = header->rings_off; at < header->code_off; at++)
		assert_int_equal(block->block[at], 0);
	/* The reader uses only numbers that exist. */
	for (size_t i = 0; i < groups_n_entries(2); i++)
		((struct group_entry *)(group + 1))[i].times = header->n_times + (uint64_t)rand();
	groups_read_times(header, block->block, 1, 1, see, &seen);
	assert_int_equal(seen.n_values + seen.not_ints, 0);
	code_block_free(block);
}

// SPDX-License-Identifier: MIT
/* Events that trampolines write to the rings of a block, and what reads them. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "change/inside/records.h"
#include "change/inside/rings.h"
#include "inside_code.h"
#include "kernel/ticks.h"
#include "unit.h"

enum { RCX = 1, RBX = 3, RDI = 7, R13 = 13, SLOTS = 4096, N_POINTS = 3 };

/* Site 0 has no arguments, site 1 has two, site 2 has four. */
enum { PLAIN, TWO, FOUR };

static const struct inside_event events[N_POINTS] = {
	{ .point = 0, .frame = { INSIDE_FRAME, 0 } },
	{ .point = 1,
	  .frame = { INSIDE_FRAME, 0 },
	  .args = { { INSIDE_REGISTER, RBX }, { INSIDE_CONSTANT, 81 } },
	  .n_args = 2 },
	{ .point = 2,
	  .frame = { INSIDE_FRAME, 16 },
	  .args = { { INSIDE_REGISTER, RDI },
		    { INSIDE_REGISTER, R13 },
		    { INSIDE_REGISTER, RCX },
		    { INSIDE_STACK, 0 } },
	  .n_args = 4 },
};

static struct code_spec event_spec(uint32_t n_rings)
{
	return (struct code_spec){
		.n_sites = N_POINTS,
		.n_shards = 3,
		.ns_per_tick = UINT64_C(1) << 32,
		.n_rings = n_rings,
		.ring_slots = SLOTS,
		.slot_bytes = rings_slot_bytes(4),
		.may_call_kernel = true,
		.roles = { { { .event = &events[PLAIN] } },
			   { { .event = &events[TWO] } },
			   { { .event = &events[FOUR] } } },
		.n_roles = { 1, 1, 1 },
	};
}

struct seen {
	struct inside_record list[4 * SLOTS];
	size_t n;
};

static void keep_record(void *data, const struct inside_record *record)
{
	struct seen *seen = data;

	assert_true(seen->n < sizeof(seen->list) / sizeof(seen->list[0]));
	seen->list[seen->n++] = *record;
}

static struct event_ring *ring_of(struct code_block *block, uint32_t i)
{
	return (struct event_ring *)(block->block + block->header.rings_off +
				     sizeof(struct rings_shared) +
				     i * rings_stride(&block->header));
}

static struct event_slot *slot_of(struct code_block *block, uint32_t ring, uint64_t i)
{
	return (struct event_slot *)((char *)(ring_of(block, ring) + 1) +
				     i % SLOTS * block->header.slot_bytes);
}

static struct seen *seen_new(void)
{
	struct seen *seen = calloc(1, sizeof(*seen));

	assert_non_null(seen);
	return seen;
}

TEST(events_have_times_threads_and_arguments)
{
	const struct code_spec spec = event_spec(1);
	struct code_block *block = code_block_new(&spec);
	struct records *records = records_new(&block->header, block->block);
	struct seen *seen = seen_new();
	const uint64_t before = ticks_now();

	srand(1);
	for (uint64_t i = 0; i < 100; i++) {
		assert_true(code_hit_checked(block->trampolines[PLAIN], 0));
		assert_true(code_hit_register(block->trampolines[TWO], RBX, i));
		assert_true(code_hit_register(block->trampolines[FOUR], RDI, ~i));
		assert_true(code_hit_vectors(block->trampolines[TWO]));
	}
	assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen), 0);
	assert_int_equal(seen->n, 400);
	for (size_t i = 0; i < seen->n; i++) {
		const struct inside_record *record = &seen->list[i];
		const uint64_t at = (uint64_t)(uintptr_t)__builtin_frame_address(0);

		assert_int_equal(record->point, i % 4 == 3 ? TWO : i % 4);
		assert_int_equal(record->tid, gettid());
		assert_true(record->ticks >= (i ? seen->list[i - 1].ticks : before));
		assert_true(record->frame < at && at - record->frame < 4096);
		if (i % 4 == TWO)
			assert_int_equal(record->args[0], i / 4);
		if (record->point == TWO)
			assert_int_equal(record->args[1], 81);
		if (i % 4 == FOUR)
			assert_int_equal(record->args[0], ~(i / 4));
	}
	/* The frame of site 2 is 16 above the stack pointer. */
	assert_int_equal(seen->list[2].frame, seen->list[1].frame + 16);
	assert_true(ticks_now() >= seen->list[seen->n - 1].ticks);
	assert_int_equal(records_lost(records), 0);
	records_free(records);
	code_block_free(block);
	free(seen);
}

/* ---- filters -------------------------------------------------------------------------------- */

/* Matches if the int in rbx is less than 50. */
static const struct inside_filter below_50 = {
	.n_ops = 1,
	.ops = { { .kind = INSIDE_COMPARE,
		   .comparison = INSIDE_LT,
		   .place = { INSIDE_REGISTER, RBX },
		   .number = 50 } },
};

/* Hits that the filter rejects write no event, or one of another point, with the arguments. */
static void check_filtered_events(bool has_rejected, uint32_t n_shards, bool is_window)
{
	const struct inside_event event = { .point = 1,
					    .rejected_point = 2,
					    .has_rejected = has_rejected,
					    .frame = { INSIDE_FRAME, 0 },
					    .args = { { INSIDE_CONSTANT, 81 },
						      { INSIDE_REGISTER, RBX } },
					    .n_args = 2 };
	struct code_spec spec = event_spec(1);
	struct code_block *block;
	struct records *records;
	struct seen *seen = seen_new();
	uint64_t n_matching = 0;

	spec.n_shards = n_shards;
	spec.roles[TWO][0].event = &event;
	spec.filters[TWO] = &below_50;
	spec.is_window[TWO] = is_window;
	block = code_block_new(&spec);
	records = records_new(&block->header, block->block);
	for (uint64_t i = 0; i < 100; i++)
		code_hit_register(block->trampolines[TWO], RBX, 2 * i + 1);
	assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen), 0);
	assert_int_equal(seen->n, has_rejected ? 100 : 50);
	for (size_t i = 0; i < seen->n; i++) {
		assert_int_equal(seen->list[i].point, i < 50 ? 1 : 2);
		assert_int_equal(seen->list[i].args[0], 81);
		assert_int_equal(seen->list[i].args[1], 2 * i + 1);
		n_matching += seen->list[i].point == 1;
	}
	assert_int_equal(n_matching, 50);
	assert_int_equal(code_hits(block, TWO), 50);
	assert_int_equal(code_filtered(block).rejected, 50);
	assert_int_equal(records_lost(records), 0);
	records_free(records);
	code_block_free(block);
	free(seen);
}

TEST(filters_choose_the_points_of_events)
{
	for (int i = 0; i < 8; i++)
		check_filtered_events(i & 1, i & 2 ? 3 : 1, i & 4);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { N_THREADS = 4, HITS = 30000 };

static struct code_block *shared_block;
static atomic_int n_running;

static void *hit_with_numbers(void *arg)
{
	for (uint64_t i = 0; i < HITS; i++)
		code_hit_register(shared_block->trampolines[TWO], RBX,
				  (uint64_t)(uintptr_t)arg << 32 | i);
	atomic_fetch_sub(&n_running, 1);
	return NULL;
}

struct followed {
	uint64_t next[N_THREADS], n, ticks;
	uint32_t tids[N_THREADS];
};

/* The numbers of each thread ascend, and each thread has one id. */
static void follow_threads(void *data, const struct inside_record *record)
{
	struct followed *followed = data;
	const uint64_t thread = record->args[0] >> 32, number = (uint32_t)record->args[0];

	assert_true(thread < N_THREADS && record->point == TWO);
	assert_true(number >= followed->next[thread] && number < HITS);
	followed->next[thread] = number + 1;
	if (!followed->tids[thread])
		followed->tids[thread] = record->tid;
	assert_int_equal(followed->tids[thread], record->tid);
	followed->n++;
}

static void record_threads(uint32_t n_rings, bool has_rseq)
{
	struct code_spec spec = event_spec(n_rings);
	struct followed followed = { 0 };
	struct records *records;
	pthread_t threads[N_THREADS];

	spec.n_shards = has_rseq ? 3 : 1;
	shared_block = code_block_new(&spec);
	records = records_new(&shared_block->header, shared_block->block);
	atomic_store(&n_running, N_THREADS);
	for (uintptr_t i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hit_with_numbers, (void *)i), 0);
	while (atomic_load(&n_running))
		assert_int_equal(records_take(records, N_POINTS, false, follow_threads, &followed),
				 0);
	for (size_t i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(records_take(records, N_POINTS, true, follow_threads, &followed), 0);
	assert_int_equal(code_hits(shared_block, TWO), N_THREADS * HITS);
	assert_int_equal(followed.n + records_lost(records), N_THREADS * HITS);
	assert_true(followed.n > N_THREADS * HITS / 20);
	assert_int_equal(records_damaged(records), 0);
	records_free(records);
	code_block_free(shared_block);
}

TEST(threads_lose_no_event_without_a_count)
{
	record_threads(2, true);
	record_threads(1, true);
	record_threads(1, false);
}

/* ---- signals -------------------------------------------------------------------------------- */

static uint64_t n_steps;

static void hit_in_the_middle(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (!code_is_at(shared_block, context))
		return;
	n_steps++;
	code_hit(shared_block->trampolines[PLAIN]);
}

TEST(signal_handlers_may_write_events)
{
	struct sigaction action = { .sa_sigaction = hit_in_the_middle, .sa_flags = SA_SIGINFO },
			 old;
	const struct code_spec spec = event_spec(2);
	struct records *records;
	struct seen *seen = seen_new();
	size_t n_two = 0;

	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	n_steps = 0;
	shared_block = code_block_new(&spec);
	records = records_new(&shared_block->header, shared_block->block);
	for (int i = 0; i < 20; i++)
		code_hit_stepped(shared_block->trampolines[TWO]);
	sigaction(SIGTRAP, &old, NULL);
	assert_true(n_steps > 20 * 30);
	assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen), 0);
	for (size_t i = 0; i < seen->n; i++) {
		n_two += seen->list[i].point == TWO;
		assert_true(!i || seen->list[i].ticks >= seen->list[i - 1].ticks);
		if (seen->list[i].point == TWO)
			assert_int_equal(seen->list[i].args[1], 81);
	}
	assert_int_equal(n_two, 20);
	assert_int_equal(seen->n, 20 + n_steps);
	assert_int_equal(records_lost(records), 0);
	records_free(records);
	code_block_free(shared_block);
	free(seen);
}

/* ---- losses --------------------------------------------------------------------------------- */

TEST(a_full_ring_counts_each_loss)
{
	const struct code_spec spec = event_spec(1);
	struct code_block *block = code_block_new(&spec);
	struct records *records = records_new(&block->header, block->block);
	struct seen *seen = seen_new();

	for (int round = 1; round <= 3; round++) {
		for (uint64_t i = 0; i < SLOTS; i++)
			assert_true(code_hit_register(block->trampolines[TWO], RBX, i));
		seen->n = 0;
		assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen), 0);
		assert_int_equal(seen->n, SLOTS - RINGS_SPARE);
		/* The oldest ones are kept. */
		for (size_t i = 0; i < seen->n; i++)
			assert_int_equal(seen->list[i].args[0], i);
		assert_int_equal(records_lost(records), round * RINGS_SPARE);
	}
	records_free(records);
	code_block_free(block);
	free(seen);
}

/* A thread that has taken a position is interrupted, for as long as a ring takes. */
TEST(a_record_that_is_not_complete_holds_nobody_up)
{
	const struct code_spec spec = event_spec(1);
	struct code_block *block = code_block_new(&spec);
	struct records *records = records_new(&block->header, block->block);
	struct event_ring *ring = ring_of(block, 0);
	struct event_slot *slot = slot_of(block, 0, 1);
	struct seen *seen = seen_new();

	code_hit(block->trampolines[PLAIN]);
	ring->head++;
	for (int i = 0; i < 10; i++)
		code_hit(block->trampolines[TWO]);
	assert_int_equal(records_take(records, N_POINTS, false, keep_record, seen), 0);
	usleep(1000);
	assert_int_equal(records_take(records, N_POINTS, false, keep_record, seen), 0);
	assert_int_equal(seen->n, 11);
	assert_int_equal(ring->tail, 1);
	assert_int_equal(records_lost(records), 0);
	assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen), 0);
	assert_int_equal(records_lost(records), 1);

	*slot = (struct event_slot){ .sequence = 2, .ticks = ticks_now(), .tid = 7, .point = FOUR };
	assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen), 0);
	assert_int_equal(seen->n, 12);
	assert_int_equal(seen->list[11].tid, 7);
	assert_int_equal(ring->tail, 12);
	assert_int_equal(records_lost(records), 0);
	records_free(records);
	code_block_free(block);
	free(seen);
}

/* ---- what a process overwrites -------------------------------------------------------------- */

TEST(overwritten_records_are_counted)
{
	const struct code_spec spec = event_spec(1);
	struct code_block *block = code_block_new(&spec);
	struct records *records = records_new(&block->header, block->block);
	struct seen *seen = seen_new();

	for (int i = 0; i < 6; i++)
		code_hit(block->trampolines[PLAIN]);
	slot_of(block, 0, 0)->point = N_POINTS;
	slot_of(block, 0, 1)->tid = 0;
	slot_of(block, 0, 2)->tid = UINT32_MAX;
	slot_of(block, 0, 3)->ticks = block->header.start_ticks - 1;
	slot_of(block, 0, 4)->ticks = ticks_now() + (UINT64_C(1) << 40);
	assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen), 0);
	assert_int_equal(seen->n, 1);
	assert_int_equal(records_damaged(records), 5);
	assert_int_equal(records_lost(records), 5);
	records_free(records);
	code_block_free(block);
	free(seen);
}

TEST(overwritten_positions_are_an_error)
{
	for (int i = 0; i < 4; i++) {
		const struct code_spec spec = event_spec(2);
		struct code_block *block = code_block_new(&spec);
		struct records *records = records_new(&block->header, block->block);
		struct seen *seen = seen_new();
		struct event_ring *ring;

		for (int j = 0; j < 3; j++)
			code_hit(block->trampolines[PLAIN]);
		assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen), 0);
		assert_int_equal(seen->n, 3);
		ring = ring_of(block, ring_of(block, 0)->head ? 0 : 1);
		if (i == 0)
			ring->head = 0;
		else if (i == 1)
			ring->head += SLOTS + 1;
		else if (i == 2)
			ring->head = UINT64_MAX;
		else
			ring->lost = UINT64_MAX;
		if (i == 3) {
			assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen),
					 0);
			ring->lost = 0;
		}
		assert_int_equal(records_take(records, N_POINTS, true, keep_record, seen),
				 -EBADMSG);
		records_free(records);
		code_block_free(block);
		free(seen);
	}
}

static void check_record(void *data, const struct inside_record *record)
{
	assert_true(record->point < N_POINTS && record->tid && record->tid <= INT32_MAX);
	++*(uint64_t *)data;
}

/* Whatever is in the rings, what comes out is in its ranges, and the reader ends. */
TEST(random_rings_are_harmless)
{
	uint64_t n_errors = 0, n_seen = 0;

	srand(4);
	for (int i = 0; i < 300; i++) {
		const struct code_spec spec = event_spec(2);
		struct code_block *block = code_block_new(&spec);
		struct records *records = records_new(&block->header, block->block);
		const uint64_t bytes = rings_bytes(&block->header);
		int err = 0;

		for (int j = 0; !err && j < 20; j++) {
			for (int k = 0; k < 50; k++)
				code_hit_register(block->trampolines[rand() % N_POINTS], RBX, 1);
			for (int k = rand() % 4; k > 0; k--) {
				/* in the records, in the numbers of the first ring, or anywhere */
				const uint64_t most[] = { 5000, 100, bytes };
				uint64_t off = (uint64_t)rand() % most[rand() % 3];

				block->block[block->header.rings_off + off] = (char)rand();
			}
			err = records_take(records, N_POINTS, rand() % 2, check_record, &n_seen);
			assert_true(!err || err == -EBADMSG);
		}
		n_errors += err != 0;
		records_free(records);
		code_block_free(block);
	}
	assert_true(n_errors > 10 && n_errors < 290);
	assert_true(n_seen > 10000);
}

/* The code stays within the rings, whatever their numbers are. */
TEST(hostile_numbers_of_rings_are_harmless)
{
	const struct code_spec spec = event_spec(2);
	struct code_block *block = code_block_new(&spec);
	char *end = block->block + block->header.meta_off;

	srand(5);
	assert_true(block->header.code_off > block->header.meta_off);
	memset(end, 0x5a, block->header.code_off - block->header.meta_off);
	for (int i = 0; i < 100000; i++) {
		struct event_ring *ring = ring_of(block, (uint32_t)rand() % 2);

		ring->head = (uint64_t)rand() << 33 | (uint64_t)rand();
		ring->tail = rand() % 2 ? ring->head - (uint64_t)rand() % 8192 : (uint64_t)rand();
		code_hit_register(block->trampolines[rand() % N_POINTS], RBX, ~UINT64_C(0));
	}
	for (uint64_t i = 0; i < block->header.code_off - block->header.meta_off; i++)
		assert_int_equal(end[i], 0x5a);
	assert_int_equal(block->header.n_sites, N_POINTS);
	code_block_free(block);
}

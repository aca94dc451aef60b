// SPDX-License-Identifier: MIT
/*
 * The machine code that counts inside a process: counters, gates, registers, and what is refused.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/ticks.h"
#include "change/inside/rings.h"
#include "change/inside/totals.h"
#include "inside_code.h"
#include "unit.h"

enum { N_THREADS = 8, HITS = 400000 };

#define START(n)                                                                                   \
	{                                                                                          \
		.pair = (n)                                                                        \
	}
#define STOP(n)                                                                                    \
	{                                                                                          \
		.pair = (n), .is_stop = true                                                       \
	}

/* Site 0 counts, 1 starts pair 0, 2 stops it, 3 does all. */
static struct code_spec every_kind(uint32_t n_shards)
{
	return (struct code_spec){
		.n_sites = 4,
		.n_pairs = 2,
		.n_shards = n_shards,
		.n_threads = 16,
		.depth = 2,
		.ns_per_tick = UINT64_C(1) << 32,
		.roles = { { START(0) },
			   { START(0) },
			   { STOP(0) },
			   { START(1), STOP(0), START(0), STOP(1) } },
		.n_roles = { 0, 1, 1, 4 },
	};
}

static pthread_barrier_t all_are_there;
static atomic_int n_running;

static void *hit_sites(void *arg)
{
	struct code_block *block = arg;

	pthread_barrier_wait(&all_are_there);
	for (int i = 0; i < HITS; i++) {
		code_hit(block->trampolines[0]);
		if (i % 2 == 0)
			code_hit(block->trampolines[1 + i % 4]);
	}
	atomic_fetch_sub(&n_running, 1);
	return NULL;
}

/* Move the threads from CPU to CPU until all have ended. */
static void move_threads(const pthread_t *threads)
{
	cpu_set_t all;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (atomic_load(&n_running))
		for (int i = 0; i < N_THREADS; i++) {
			cpu_set_t one;

			do
				cpu = (cpu + 1) % CPU_SETSIZE;
			while (!CPU_ISSET(cpu, &all));
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			pthread_setaffinity_np(threads[i], sizeof(one), &one);
		}
}

static void threads_count_exactly(uint32_t n_shards, bool fakes_rseq)
{
	struct code_spec spec = { .n_sites = 4, .n_shards = n_shards, .fakes_rseq = fakes_rseq };
	struct code_block *block = code_block_new(&spec);
	pthread_t threads[N_THREADS];

	atomic_store(&n_running, N_THREADS);
	assert_int_equal(pthread_barrier_init(&all_are_there, NULL, N_THREADS), 0);
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hit_sites, block), 0);
	move_threads(threads);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(code_hits(block, 0), N_THREADS * HITS);
	assert_int_equal(code_hits(block, 1), N_THREADS * HITS / 4);
	assert_int_equal(code_hits(block, 2), 0);
	assert_int_equal(code_hits(block, 3), N_THREADS * HITS / 4);
	code_block_free(block);
}

TEST(counts_are_exact)
{
	threads_count_exactly(1, false);
	/* Some CPUs have no shard, or all have one. */
	threads_count_exactly(2, false);
	threads_count_exactly(65, false);
	/* No thread is registered. */
	threads_count_exactly(2, true);
}

static uint64_t *counter_in(struct code_block *block, uint32_t shard, uint32_t site)
{
	uint64_t *counters = (uint64_t *)(block->block + block->header.counters_off);

	return &counters[shard * block->header.shard_stride + site];
}

/* A CPU has a shard of its own. */
TEST(shards_are_those_of_cpus)
{
	enum { SHARDS = 64 };
	struct code_spec spec = { .n_sites = 1, .n_shards = SHARDS + 1 };
	struct code_block *block = code_block_new(&spec);
	uint64_t wanted = 0;
	cpu_set_t all, one;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	for (uint32_t cpu = 0; cpu < SHARDS; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		wanted += HITS;
		for (int i = 0; i < HITS; i++)
			code_hit(block->trampolines[0]);
		assert_int_equal(code_hits(block, 0), wanted);
		/* Those that were interrupted are in the last one. */
		assert_true(*counter_in(block, cpu, 0) > HITS / 2);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	code_block_free(block);
}

/* A cpu_id is -1 or -2 if nobody has registered the thread. */
TEST(other_cpu_ids_count_in_the_last_shard)
{
	static const struct {
		int32_t id;
		uint32_t shard;
	} ids[] = { { -1, 3 }, { -2, 3 }, { 0, 0 },	    { 2, 2 },
		    { 3, 3 },  { 5, 3 },  { INT32_MIN, 3 }, { 1000003, 3 } };
	struct code_spec spec = { .n_sites = 2, .n_shards = 4, .fakes_rseq = true };
	struct code_block *block = code_block_new(&spec);

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		const uint64_t *counter = counter_in(block, ids[i].shard, 1);
		const uint64_t before = *counter;

		code_fake_rseq.cpu_id = (uint32_t)ids[i].id;
		code_fake_rseq.rseq_cs = 1;
		code_hit(block->trampolines[1]);
		assert_int_equal(*counter, before + 1);
		assert_int_equal(code_fake_rseq.rseq_cs, 0);
	}
	assert_int_equal(code_hits(block, 1), sizeof(ids) / sizeof(ids[0]));
	assert_int_equal(code_hits(block, 0), 0);
	code_block_free(block);
}

static const struct rseq *own_rseq(void)
{
	return (const struct rseq *)((const char *)pthread_self() + __rseq_offset);
}

static void do_nothing(int signal)
{
	(void)signal;
}

/*
 * A signal after each instruction: the kernel takes each one in the sequence out of it. The hit
 * counts once, in the last shard, and no signal is met with rseq_cs pointing to the block.
 */
TEST(interrupted_hits_count_in_the_last_shard)
{
	struct code_spec spec = every_kind(3);
	struct code_block *block = code_block_new(&spec);

	signal(SIGTRAP, do_nothing);
	for (uint32_t site = 0; site < 4; site++) {
		for (uint64_t n = 1; n <= 100; n++) {
			code_hit_stepped(block->trampolines[site]);
			assert_int_equal(*counter_in(block, 2, site), n);
			assert_int_equal(own_rseq()->rseq_cs, 0);
		}
		assert_int_equal(code_hits(block, site), 100);
	}
	signal(SIGTRAP, SIG_DFL);
	code_block_free(block);
}

TEST(all_registers_are_kept)
{
	for (uint32_t n_shards = 1; n_shards <= 4; n_shards += 3) {
		struct code_spec spec = every_kind(n_shards);
		struct code_block *block = code_block_new(&spec);

		srand(1);
		for (int i = 0; i < 2000; i++) {
			const uint32_t site = (uint32_t)rand() % 4;

			*code_gate(block, site) = rand() % 2 ? 1 : 0;
			assert_true(code_hit_checked(block->trampolines[site],
						     (uint64_t)(rand() % 4) * 16));
			assert_true(code_hit_vectors(block->trampolines[site]));
		}
		/* The paths that registers were kept on. */
		assert_true(code_pair(block, 0).count > 100);
		assert_true(code_pair(block, 0).orphan_starts > 100);
		assert_true(code_pair(block, 0).orphan_stops > 100);
		code_block_free(block);
	}
}

/*
 * The handler runs if the two bytes are not 0, whatever is beside them; the hit counts in any case.
 */
TEST(gates_say_whether_the_handler_runs)
{
	static uint16_t semaphores[3];
	struct code_spec spec = every_kind(2);
	struct code_block *block;

	spec.gates = semaphores;
	spec.n_sites = 3;
	block = code_block_new(&spec);
	for (uint32_t site = 0; site < 3; site++) {
		static const uint16_t opened[] = { 1, 0x100, 0x8000, 0xffff };

		memset(semaphores, 0xff, sizeof(semaphores));
		code_wrapper_runs = 0;
		semaphores[site] = 0;
		code_hit(block->trampolines[site]);
		assert_int_equal(code_wrapper_runs, 0);
		memset(semaphores, 0, sizeof(semaphores));
		for (size_t i = 0; i < 4; i++) {
			semaphores[site] = opened[i];
			assert_true(code_hit_checked(block->trampolines[site], 0));
			assert_int_equal(code_wrapper_runs, i + 1);
		}
		assert_int_equal(code_hits(block, site), 5);
		semaphores[site] = 0;
	}
	code_block_free(block);
}

TEST(children_count_into_the_same_memory)
{
	struct code_spec spec = { .n_sites = 1, .n_shards = 4 };
	struct code_block *block = code_block_new(&spec);

	for (int child = 0; child < 3; child++) {
		const pid_t pid = fork();

		assert_true(pid >= 0);
		for (int i = 0; i < 1000; i++)
			code_hit(block->trampolines[0]);
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	assert_int_equal(code_hits(block, 0), 6000);
	code_block_free(block);
}

enum { CODE_BYTES = 16384 }; /* more than the routines of a block have */

/* The room of a trampoline is exact, and the rest of it is breakpoints. */
TEST(code_stays_in_its_room)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const struct inside_role roles[] = { STOP(0), START(1), START(0), STOP(1), STOP(0) };
	const struct templates_process process = { .rseq_off = 8, .tid_off = 8 };
	const struct block_header header = { .n_shards = 8,
					     .n_pairs = 2,
					     .n_threads = 16,
					     .depth = 1,
					     .ns_per_tick = 1,
					     .code_off = 1 << 20 };
	uint8_t code[CODE_BYTES];

	memset(code, 0xab, sizeof(code));
	assert_true(templates_routines_bytes() < sizeof(code));
	assert_int_equal(templates_routines(ctx, &header, &process, code), 0);
	assert_int_not_equal(code[templates_routines_bytes() - 64], 0xcc);
	assert_int_equal(code[templates_routines_bytes()], 0xab);
	for (size_t n = 0; n <= 5; n++) {
		const struct templates_site site = { .roles = roles, .n_roles = n };
		const size_t room = templates_site_bytes(8, roles, n);
		size_t end = room;

		memset(code, 0xab, sizeof(code));
		assert_int_equal(templates_site(ctx, &header, &process, &site, code), 0);
		assert_int_equal(code[room], 0xab);
		while (code[end - 1] == 0xcc)
			end--;
		assert_int_equal(code[end - 1], 0xc3); /* ret */
		assert_true(room - end < 32);
	}
	ocp_ctx_free(ctx);
}

/* So is that of a trampoline that writes an event. */
TEST(code_of_events_stays_in_its_room)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const struct templates_process process = { .rseq_off = 8, .tid_off = 8 };
	const struct block_header header = { .n_shards = 8,
					     .n_rings = 2,
					     .ring_slots = 4096,
					     .slot_bytes = rings_slot_bytes(INSIDE_EVENT_ARGS),
					     .ns_per_tick = 1,
					     .code_off = 1 << 20 };
	uint8_t code[CODE_BYTES];

	assert_int_equal(templates_routines(ctx, &header, &process, code), 0);
	for (uint32_t n = 0; n <= INSIDE_EVENT_ARGS; n++) {
		const struct inside_event event = { .frame = { INSIDE_FRAME, 8 }, .n_args = n };
		const struct inside_role role = { .event = &event };
		const struct templates_site site = { .roles = &role, .n_roles = 1 };
		const size_t room = templates_site_bytes(8, &role, 1);
		size_t end = room;

		memset(code, 0xab, sizeof(code));
		assert_int_equal(templates_site(ctx, &header, &process, &site, code), 0);
		assert_int_equal(code[room], 0xab);
		while (code[end - 1] == 0xcc)
			end--;
		assert_int_equal(code[end - 1], 0xc3); /* ret */
		assert_true(room - end < 32);
	}
	ocp_ctx_free(ctx);
}

/*
 * ... and that of a trampoline whose hits are grouped, or whose times are, with a filter and
 * without one.
 */
static void check_code_of_groups(const struct inside_role *role, uint32_t n_pairs)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const struct templates_process process = { .rseq_off = 8, .tid_off = 8 };
	const struct inside_filter filter = {
		.n_ops = 1, .ops = { { .comparison = INSIDE_EQ, .place = { INSIDE_REGISTER, 3 } } }
	};
	const struct block_header header = { .n_shards = 8,
					     .n_groups = 2,
					     .n_pairs = n_pairs,
					     .n_threads = 16,
					     .depth = 1,
					     .ns_per_tick = 1,
					     .code_off = 1 << 20 };
	uint8_t code[CODE_BYTES];

	assert_int_equal(templates_routines(ctx, &header, &process, code), 0);
	for (int has_filter = 0; has_filter < 2; has_filter++) {
		const struct inside_site inside = { .roles = role,
						    .n_roles = 1,
						    .filter = has_filter ? &filter : NULL };
		const struct templates_site site = { .roles = role,
						     .n_roles = 1,
						     .filter.filter = inside.filter };
		const size_t room = has_filter ? templates_filtered_bytes(8, &inside)
					       : templates_site_bytes(8, role, 1);
		size_t end = room;

		memset(code, 0xab, sizeof(code));
		assert_int_equal(templates_site(ctx, &header, &process, &site, code), 0);
		assert_int_equal(code[room], 0xab);
		while (code[end - 1] == 0xcc)
			end--;
		assert_true(room - end < 32);
	}
	ocp_ctx_free(ctx);
}

TEST(code_of_groups_stays_in_its_room)
{
	check_code_of_groups(&(struct inside_role){ .has_group = true,
						    .group = 1,
						    .key = { INSIDE_REGISTER, 0 } },
			     0);
	check_code_of_groups(&(struct inside_role){ .is_grouped = true,
						    .group = 1,
						    .value = { INSIDE_REGISTER, 0 } },
			     1);
}

TEST(what_cannot_work_is_refused)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const struct block_header good = {
		.n_shards = 2, .n_pairs = 1, .n_threads = 16, .depth = 32, .ns_per_tick = 1
	};
	const struct templates_process process = { .rseq_off = 8, .tid_off = 8 };
	struct templates_process unknown = process;
	struct templates_site site = { .wrapper = INT32_MAX };
	struct block_header header = good;
	uint8_t code[CODE_BYTES];

	assert_int_equal(templates_routines(ctx, &good, &process, code), 0);
#define REFUSED(member, value, code_wanted)                                                        \
	header = good;                                                                             \
	header.member = (value);                                                                   \
	assert_int_equal(templates_routines(ctx, &header, &process, code), code_wanted)
	REFUSED(n_shards, 0, -ERANGE);
	REFUSED(n_shards, TEMPLATES_MAX_SHARDS + 1, -ERANGE);
	REFUSED(n_threads, 8, -ERANGE);
	REFUSED(n_threads, 24, -ERANGE);
	REFUSED(depth, 0, -ERANGE);
	REFUSED(depth, 33, -ERANGE);
	REFUSED(ns_per_tick, 0, -ENOTSUP);
#undef REFUSED
	unknown.rseq_off = 0;
	assert_int_equal(templates_routines(ctx, &good, &unknown, code), -ENOTSUP);
	unknown = process;
	unknown.tid_off = 0;
	assert_int_equal(templates_routines(ctx, &good, &unknown, code), -ENOTSUP);
	assert_non_null(strstr(ocp_error(ctx), "ids of threads"));
	/* Without pairs, and in one shard, nothing needs to be known. */
	header = (struct block_header){ .n_shards = 1 };
	assert_int_equal(templates_routines(ctx, &header, &(struct templates_process){ 0 }, code),
			 0);
	assert_int_equal(templates_site(ctx, &good, &process, &site, code), 0);
	site.wrapper = (uint64_t)INT32_MAX + 4096;
	assert_int_equal(templates_site(ctx, &good, &process, &site, code), -ERANGE);
	site.wrapper = 0;
	site.gate = UINT64_C(1) << 40;
	assert_int_equal(templates_site(ctx, &good, &process, &site, code), -ERANGE);
	ocp_ctx_free(ctx);
}

// SPDX-License-Identifier: MIT
/*
 * Pairs by key inside a process: against a model, from each place, by threads, forked children, and
 * full. The key is an int or, if the test is of calls, a frame.
 */
#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "change/inside/totals.h"
#include "kernel/ticks.h"
#include "inside_code.h"
#include "unit.h"

enum { START, STOP, REJECTED, RBX = 3, RSP = 4, N_REGISTERS = 16 };

#define BY_KEY(stop, place)                                                                        \
	{                                                                                          \
		{                                                                                  \
			.is_keyed = true, .is_stop = (stop), .key = (place)                        \
		}                                                                                  \
	}

/* Frames are as far apart as the stack of a signal handler needs. */
enum { FRAME_BYTES = 16384, N_FRAMES = 8192 };

/* The keys are frames of this stack; NULL: rbx has the key. */
static char *call_stack;

static void of_calls(void (*check)(void))
{
	const size_t bytes = 2UL * N_FRAMES * FRAME_BYTES;
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(stack != MAP_FAILED);
	call_stack = stack + bytes / 2;
	check();
	call_stack = NULL;
	munmap(stack, bytes);
}

/* One pair, whose start and stop have the key at PLACE. */
static struct code_spec key_spec(uint32_t n_threads, struct inside_place place)
{
	return (struct code_spec){
		.n_sites = STOP + 1,
		.n_pairs = 1,
		.n_shards = 2,
		.n_threads = n_threads,
		.depth = 1,
		.ns_per_tick = UINT64_C(1) << 32, /* nanoseconds are ticks */
		.may_call_kernel = true,
		.roles = { BY_KEY(false, place), BY_KEY(true, place) },
		.n_roles = { 1, 1 },
	};
}

/* ... the key that hit_key() has */
static struct code_spec our_spec(uint32_t n_threads)
{
	return key_spec(n_threads, call_stack ? (struct inside_place){ INSIDE_FRAME, 0 }
					      : (struct inside_place){ INSIDE_REGISTER, RBX });
}

static struct code_block *new_block(uint32_t n_threads)
{
	const struct code_spec spec = our_spec(n_threads);

	return code_block_new(&spec);
}

static uint64_t ocaml_int(int64_t number)
{
	return (uint64_t)number << 1 | 1;
}

/* The key of hit_key(). */
static uint64_t key_of(int64_t key)
{
	return call_stack ? (uint64_t)(call_stack + key * FRAME_BYTES) + 1 : ocaml_int(key);
}

static void hit_key(struct code_block *block, uint32_t site, int64_t key)
{
	if (call_stack)
		code_hit_on(block->trampolines[site], call_stack + key * FRAME_BYTES);
	else
		assert_true(code_hit_register(block->trampolines[site], RBX, ocaml_int(key)));
}

static void assert_books(struct code_block *block)
{
	const struct inside_pair totals = code_pair(block, 0);

	assert_int_equal(totals.starts, totals.count + totals.orphan_starts + totals.collisions +
						totals.not_keyed + code_open(block, 0));
}

/* ---- the rules ------------------------------------------------------------------------------ */

static void check_model(void)
{
	enum { N = 60 };
	struct code_spec spec = our_spec(64);
	struct code_block *block;
	bool is_rejected[N];
	uint64_t since[N] = { 0 }, last_sum = 0, starts = 0, count = 0, orphan_starts = 0,
		 orphan_stops = 0;

	spec.n_sites = REJECTED + 1;
	spec.roles[REJECTED][0] = spec.roles[START][0];
	spec.n_roles[REJECTED] = 1;
	spec.filters[REJECTED] = &code_rejects_all;
	block = code_block_new(&spec);
	srand(27);
	for (int i = 0; i < 20000; i++) {
		const int key = rand() % N;
		const uint64_t from = ticks_now();
		struct inside_pair totals;
		uint64_t to;

		if (rand() % 2) {
			const bool rejects = rand() % 3 == 0;

			hit_key(block, rejects ? REJECTED : START, key - 20); /* also below 0 */
			starts += !rejects;
			orphan_starts += since[key] && !is_rejected[key];
			since[key] = from;
			is_rejected[key] = rejects;
			continue;
		}
		hit_key(block, STOP, key - 20);
		to = ticks_now();
		totals = code_pair(block, 0);
		if (since[key] && is_rejected[key]) {
			assert_int_equal(totals.sum_ns, last_sum);
		} else if (since[key]) {
			count++;
			assert_true(totals.sum_ns - last_sum <= to - since[key]);
			assert_true(totals.max_ns >= totals.sum_ns - last_sum);
			assert_true(totals.min_ns <= totals.sum_ns - last_sum);
		} else {
			orphan_stops++;
			assert_int_equal(totals.sum_ns, last_sum);
		}
		last_sum = totals.sum_ns;
		since[key] = 0;
		assert_int_equal(totals.starts, starts);
		assert_int_equal(totals.count, count);
		assert_int_equal(totals.orphan_starts, orphan_starts);
		assert_int_equal(totals.orphan_stops, orphan_stops);
	}
	assert_true(count > 2500 && orphan_starts > 1500 && orphan_stops > 2000);
	assert_int_equal(code_pair(block, 0).collisions, 0);
	for (int key = 0; key < N; key++)
		if (since[key] && is_rejected[key])
			hit_key(block, STOP, key - 20);
	assert_books(block);
	code_block_free(block);
}

TEST(keys_follow_the_model)
{
	check_model();
}

TEST(calls_follow_the_model)
{
	of_calls(check_model);
}

/* Times of the test's own clock: the last one before, and the first one after a hit. */
struct hit_time {
	uint64_t before, after;
};

static struct hit_time timed_hit(struct code_block *block, size_t trampoline, int64_t key)
{
	struct hit_time time = { .before = ticks_now() };

	hit_key(block, trampoline, key);
	time.after = ticks_now();
	return time;
}

/* Is NS a time from START to STOP? */
static void assert_between(uint64_t ns, struct hit_time start, struct hit_time stop)
{
	assert_in_range(ns, stop.before - start.after, stop.after - start.before);
}

/* A start and a stop with other pairs between them: the time is that of the key. */
static void check_time(void)
{
	struct code_block *block = new_block(16);
	struct hit_time outer, inner, inner_stop, outer_stop;

	outer = timed_hit(block, START, 1);
	usleep(2000);
	inner = timed_hit(block, START, 2);
	inner_stop = timed_hit(block, STOP, 2);
	assert_between(code_pair(block, 0).max_ns, inner, inner_stop);
	outer_stop = timed_hit(block, STOP, 1);
	assert_between(code_pair(block, 0).max_ns, outer, outer_stop);
	assert_int_equal(code_pair(block, 0).count, 2);
	code_block_free(block);
}

TEST(the_time_is_that_of_the_key)
{
	check_time();
}

TEST(the_time_is_that_of_the_call)
{
	of_calls(check_time);
}

TEST(what_is_no_int_is_no_key)
{
	struct code_block *block = new_block(16);

	assert_true(code_hit_register(block->trampolines[START], RBX, 0x7f0000001000));
	assert_true(code_hit_register(block->trampolines[START], RBX, 0));
	assert_true(code_hit_register(block->trampolines[STOP], RBX, 0x7f0000001000));
	assert_int_equal(code_pair(block, 0).starts, 2);
	assert_int_equal(code_pair(block, 0).not_keyed, 2);
	assert_int_equal(code_pair(block, 0).orphan_stops, 1);
	assert_int_equal(code_open(block, 0), 0);
	code_block_free(block);
}

/* More keys than there is room for: none is lost, and none is taken for another one. */
static void check_no_room(void)
{
	enum { N = 8000 };
	struct code_block *block = new_block(16);
	uint64_t n_open;

	for (int round = 0; round < 3; round++) {
		const struct inside_pair before = code_pair(block, 0);
		struct inside_pair after;

		for (int64_t key = 0; key < N; key++)
			hit_key(block, START, key);
		n_open = code_open(block, 0);
		assert_int_equal(n_open, pairs_n_keys(16));
		for (int64_t key = N; key-- > 0;)
			hit_key(block, STOP, key);
		after = code_pair(block, 0);
		assert_int_equal(after.collisions - before.collisions, N - n_open);
		assert_int_equal(after.orphan_stops - before.orphan_stops, N - n_open);
		assert_int_equal(after.count - before.count, n_open);
		assert_int_equal(after.starts - before.starts, N);
		assert_int_equal(code_open(block, 0), 0);
	}
	code_block_free(block);
}

TEST(no_room_is_a_collision)
{
	check_no_room();
}

TEST(calls_without_room_are_collisions)
{
	of_calls(check_no_room);
}

/* Requests have numbers one after the other, or far apart: a thousand of them have room. */
TEST(a_thousand_requests_have_room)
{
	static const int64_t strides[] = { 1, 2, 8, 64, 4096, 1 << 20, INT64_C(1) << 40, -3 };
	struct code_block *block = new_block(pairs_n_slots(1024));

	for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
		for (int64_t key = 0; key < 1024; key++)
			hit_key(block, START, key * strides[i]);
		assert_int_equal(code_open(block, 0), 1024);
		for (int64_t key = 0; key < 1024; key++)
			hit_key(block, STOP, key * strides[i]);
	}
	assert_int_equal(code_pair(block, 0).collisions + code_pair(block, 0).orphan_stops, 0);
	code_block_free(block);
}

/* ---- where the key is ----------------------------------------------------------------------- */

/* Hidden: called within the program. KEY is OFF bytes above rsp at the site. */
void key_on_stack(uint64_t trampoline, uint64_t key);
enum { KEY_OFF = 48 };
__asm__(".pushsection .text\n"
	"key_on_stack:\n"
	"	push	%rsi\n"
	"	sub	$48, %rsp\n"
	"	call	*%rdi\n"
	"	add	$56, %rsp\n"
	"	ret\n"
	".popsection\n");

static void hit_at(const struct inside_place *place, struct code_block *block, uint32_t site,
		   int64_t key)
{
	if (place->kind == INSIDE_STACK)
		key_on_stack(block->trampolines[site], ocaml_int(key));
	else
		assert_true(code_hit_register(
			block->trampolines[site],
			place->kind == INSIDE_REGISTER ? (uint32_t)place->number : RBX,
			ocaml_int(key)));
}

/*
 * The key of PLACE is read: a stop with another one ends nothing. A constant is the same in each
 * call.
 */
static void check_place(struct inside_place place)
{
	const struct code_spec spec = key_spec(16, place);
	struct code_block *block = code_block_new(&spec);
	const int64_t far = INT64_C(1) << 40;

	for (int64_t key = -2; key <= 2; key++) {
		hit_at(&place, block, START, key * far);
		hit_at(&place, block, STOP, key * far + 1);
		hit_at(&place, block, STOP, key * far);
	}
	assert_int_equal(code_pair(block, 0).starts, 5);
	assert_int_equal(code_pair(block, 0).count, 5);
	assert_int_equal(code_pair(block, 0).orphan_stops, 5);
	assert_int_equal(code_open(block, 0), 0);
	code_block_free(block);
}

TEST(keys_are_read_from_each_place)
{
	for (uint32_t reg = 0; reg < N_REGISTERS; reg++)
		if (reg != RSP)
			check_place((struct inside_place){ INSIDE_REGISTER, reg });
	check_place((struct inside_place){ INSIDE_STACK, KEY_OFF });
	check_place((struct inside_place){ INSIDE_CONSTANT, -1 });
	check_place((struct inside_place){ INSIDE_CONSTANT, INT64_MIN + 1 });
}

/* Each role of a site has its own key, also behind a role that has used the registers. */
TEST(each_role_has_its_key)
{
	enum { RAX, RCX, RDX, RSI = 6, RDI };
	static const uint32_t used[] = { RAX, RCX, RDX, RSI, RDI };

	for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
		struct code_spec spec = key_spec(16, (struct inside_place){ INSIDE_REGISTER, RBX });
		struct code_block *block;

		/* Site 2: it stops pair 0 by rbx, and starts pair 1 by another register. */
		spec.n_sites = 4;
		spec.n_pairs = 2;
		spec.n_roles[2] = 2;
		spec.roles[2][0] = (struct inside_role){ .is_keyed = true, .is_stop = true };
		spec.roles[2][1] = (struct inside_role){ .pair = 1, .is_keyed = true };
		spec.roles[2][0].key = (struct inside_place){ INSIDE_REGISTER, RBX };
		spec.roles[2][1].key = (struct inside_place){ INSIDE_REGISTER, used[i] };
		/* Site 3 stops pair 1. */
		spec.n_roles[3] = 1;
		spec.roles[3][0] =
			(struct inside_role){ .pair = 1, .is_keyed = true, .is_stop = true };
		spec.roles[3][0].key = (struct inside_place){ INSIDE_REGISTER, RBX };
		block = code_block_new(&spec);
		assert_true(code_hit_register(block->trampolines[2], used[i], ocaml_int(9)));
		assert_int_equal(code_pair(block, 1).starts, 1);
		hit_key(block, 3, 8);
		assert_int_equal(code_pair(block, 1).count, 0);
		hit_key(block, 3, 9);
		assert_int_equal(code_pair(block, 1).count, 1);
		assert_int_equal(code_pair(block, 0).orphan_stops, 1);
		code_block_free(block);
	}
}

/* The start's constant is the stop's register: it is the whole number that is compared. */
TEST(constants_are_whole)
{
	static const int64_t numbers[] = { 0, 1, -1, INT64_C(1) << 61, -(INT64_C(1) << 62) };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct code_spec spec = key_spec(16, (struct inside_place){ INSIDE_REGISTER, RBX });
		struct code_block *block;

		spec.roles[START][0].key =
			(struct inside_place){ INSIDE_CONSTANT, (int64_t)ocaml_int(numbers[i]) };
		block = code_block_new(&spec);
		assert_true(code_hit_checked(block->trampolines[START], 0));
		hit_key(block, STOP, numbers[i] ^ INT64_C(1) << 35);
		assert_int_equal(code_pair(block, 0).count, 0);
		hit_key(block, STOP, numbers[i]);
		assert_int_equal(code_pair(block, 0).count, 1);
		code_block_free(block);
	}
}

TEST(places_that_cannot_be_read_are_refused)
{
	static const struct inside_place bad[] = {
		{ INSIDE_REGISTER, RSP },
		{ INSIDE_REGISTER, 16 },
		{ INSIDE_REGISTER, -1 },
		{ INSIDE_STACK, -8 },
		{ INSIDE_STACK, INSIDE_STACK_MAX + 1 },
		{ (enum inside_place_kind)7, 0 },
	};
	struct inside_role role = { .is_keyed = true };
	const struct block_header header = {
		.n_shards = 2, .n_pairs = 1, .n_threads = 16, .depth = 1, .ns_per_tick = 1
	};
	struct templates_process process = { .rseq_off = 8, .tid_off = 8, .may_call_kernel = true };
	const struct templates_site site = { .roles = &role, .n_roles = 1 };
	struct ocp_ctx *ctx = ocp_ctx_new();
	uint8_t code[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		role.key = bad[i];
		assert_int_equal(templates_site(ctx, &header, &process, &site, code), -EINVAL);
	}
	role.key = (struct inside_place){ INSIDE_REGISTER, RBX };
	assert_int_equal(templates_site(ctx, &header, &process, &site, code), 0);
	process.may_call_kernel = false;
	assert_int_equal(templates_site(ctx, &header, &process, &site, code), -ENOTSUP);
	assert_non_null(strstr(ocp_error(ctx), "seccomp"));
	ocp_ctx_free(ctx);
}

/* ---- threads, signals and processes --------------------------------------------------------- */

struct worker {
	struct code_block *block;
	int number;
	pthread_t thread;
};

/* Keys of its own, and some that all threads use. */
static void *work(void *arg)
{
	const struct worker *worker = arg;
	unsigned int seed = (unsigned int)worker->number;

	for (int i = 0; i < 30000; i++) {
		const int64_t own = 1000 + 4 * (rand_r(&seed) % 50) + worker->number;
		const int64_t key = rand_r(&seed) % 4 ? own : rand_r(&seed) % 3;

		hit_key(worker->block, (uint32_t)(rand_r(&seed) % 2), key);
	}
	return NULL;
}

TEST(threads_lose_no_key)
{
	enum { N = 4 };
	struct code_block *block = new_block(64);
	struct worker workers[N];
	struct inside_pair totals;

	for (int i = 0; i < N; i++) {
		workers[i] = (struct worker){ .block = block, .number = i };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < N; i++)
		pthread_join(workers[i].thread, NULL);
	totals = code_pair(block, 0);
	assert_int_equal(totals.starts, code_hits(block, START));
	assert_int_equal(totals.count + totals.orphan_stops, code_hits(block, STOP));
	assert_true(totals.count > 10000);
	assert_int_equal(totals.collisions, 0);
	assert_books(block);
	code_block_free(block);
}

static struct code_block *stepped_block;
static uint64_t n_steps;

/* Keys of one bucket. */
enum { MAX_NEIGHBOURS = 7 };
static int64_t neighbours[MAX_NEIGHBOURS];
static size_t n_neighbours;

/* After each instruction of a trampoline: a pair of the thread LIVE, with another key. */
static void hit_in_between(int number, siginfo_t *info, void *context)
{
	const int32_t tid = code_fake_tid;

	(void)number;
	(void)info;
	if (!n_neighbours || !code_is_at(stepped_block, context))
		return;
	code_fake_tid = LIVE;
	hit_key(stepped_block, START, neighbours[n_steps % n_neighbours]);
	hit_key(stepped_block, STOP, neighbours[n_steps++ % n_neighbours]);
	code_fake_tid = tid;
}

/* Return the entry of the only open start of stepped_block. */
static uint32_t open_place(void)
{
	uint32_t place = 0;

	assert_int_equal(code_open(stepped_block, 0), 1);
	while (!code_key(stepped_block, 0, place)->key)
		place++;
	return place;
}

/* See bucket_to_r8 in templates_routines.h. */
static uint32_t bucket_of(uint64_t key)
{
	const uint64_t n_buckets =
		pairs_n_keys(stepped_block->header.n_threads) / PAIRS_BUCKET_KEYS;

	return (uint32_t)((key * 0x9e3779b97f4a7c15 >> 32) * n_buckets >> 32);
}

/* From now on, hit_in_between() uses other keys of the bucket of the only open start. */
static void find_neighbours(void)
{
	const uint32_t bucket = open_place() / PAIRS_BUCKET_KEYS;

	assert_int_equal(bucket_of(code_key(stepped_block, 0, open_place())->key), bucket);
	for (int64_t key = 5; n_neighbours < MAX_NEIGHBOURS; key++)
		if (bucket_of(key_of(key)) == bucket)
			neighbours[n_neighbours++] = key;
}

/*
 * Sites 2 and 3 are a start and a stop for code_hit_stepped(). Their key is a constant, since rbx
 * is what it was at the call; or it is the frame of the caller.
 */
static void step_block(bool fakes_tids, struct sigaction *old)
{
	const struct sigaction action = { .sa_sigaction = hit_in_between, .sa_flags = SA_SIGINFO };
	struct code_spec spec = our_spec(16);

	spec.n_sites = 4;
	spec.fakes_tids = fakes_tids;
	for (uint32_t i = 0; i < 2; i++) {
		spec.roles[2 + i][0] = spec.roles[i][0];
		if (!call_stack)
			spec.roles[2 + i][0].key = (struct inside_place){ INSIDE_CONSTANT, 3 };
		spec.n_roles[2 + i] = 1;
	}
	assert_int_equal(sigaction(SIGTRAP, &action, old), 0);
	n_steps = n_neighbours = 0;
	stepped_block = code_block_new(&spec);
}

/* A thread keeps a slot for its totals; other threads with the same place share slot 0. */
static void check_slots(void)
{
	enum { N_THREADS = 16, OTHER = LIVE + N_THREADS / PAIRS_THREADS_A_TOTAL, KEY = 7 };
	struct code_spec spec = our_spec(N_THREADS);
	struct code_block *block;

	spec.fakes_tids = true;
	block = code_block_new(&spec);
	assert_int_equal(pairs_n_totals(N_THREADS), OTHER - LIVE);
	for (int i = 0; i < 3; i++) {
		code_fake_tid = LIVE;
		hit_key(block, START, KEY);
		hit_key(block, STOP, KEY);
	}
	assert_int_equal(code_slot(block, 0, LIVE)->tid, LIVE);
	assert_int_equal(code_slot(block, 0, LIVE)->starts, 3);
	/* A call may end in another thread than it began. */
	hit_key(block, START, KEY);
	code_fake_tid = OTHER;
	hit_key(block, STOP, KEY);
	hit_key(block, START, KEY);
	assert_int_equal(code_slot(block, 0, LIVE)->tid, LIVE);
	assert_int_equal(code_slot(block, 0, LIVE)->starts, 4);
	assert_int_equal(code_slot(block, 0, 0)->starts, 1);
	assert_int_equal(code_slot(block, 0, 0)->tid, PAIRS_SHARED);
	assert_int_equal(code_pair(block, 0).starts, 5);
	assert_int_equal(code_pair(block, 0).count, 4);
	assert_books(block);
	code_block_free(block);
}

TEST(threads_have_slots_for_totals)
{
	check_slots();
}

TEST(threads_that_call_have_slots_for_totals)
{
	of_calls(check_slots);
}

static void check_signals(void)
{
	struct sigaction old;
	struct inside_pair totals;

	step_block(false, &old);
	for (int i = 0; i < 8; i++) {
		code_hit_stepped(stepped_block->trampolines[2]);
		if (!n_neighbours)
			find_neighbours();
		code_hit_stepped(stepped_block->trampolines[2]); /* replaces */
		code_hit_stepped(stepped_block->trampolines[3]);
		code_hit_stepped(stepped_block->trampolines[3]); /* an orphan */
	}
	sigaction(SIGTRAP, &old, NULL);
	totals = code_pair(stepped_block, 0);
	assert_true(n_steps > 1000);
	assert_int_equal(totals.starts, 16 + n_steps);
	assert_int_equal(totals.count, 8 + n_steps);
	assert_int_equal(totals.orphan_starts, 8);
	assert_int_equal(totals.orphan_stops, 8);
	assert_int_equal(code_open(stepped_block, 0), 0);
	code_block_free(stepped_block);
}

TEST(signal_handlers_may_use_keys)
{
	check_signals();
}

TEST(signal_handlers_may_call)
{
	of_calls(check_signals);
}

/*
 * A stack has moved to another thread, which stops the call, or starts a new one there. Meanwhile
 * the thread that started the call uses its entry as soon as the entry is free.
 */
static void check_moved(void)
{
	enum { OTHER = LIVE + 1 };
	struct inside_pair totals;
	struct sigaction old;
	uint64_t from;

	step_block(true, &old);
	for (int i = 0; i < 8; i++) {
		code_fake_tid = LIVE;
		code_hit_stepped(stepped_block->trampolines[2]);
		from = ticks_now();
		if (!n_neighbours)
			find_neighbours();
		usleep(1000);
		code_fake_tid = OTHER;
		from = ticks_now() - from;
		code_hit_stepped(stepped_block->trampolines[3]);
		assert_in_range(code_pair(stepped_block, 0).max_ns, from, UINT64_MAX);
		code_fake_tid = LIVE;
		code_hit_stepped(stepped_block->trampolines[2]);
		code_fake_tid = OTHER;
		code_hit_stepped(stepped_block->trampolines[2]); /* replaces */
		assert_int_not_equal(code_key(stepped_block, 0, open_place())->owner, LIVE);
		code_hit_stepped(stepped_block->trampolines[3]);
	}
	sigaction(SIGTRAP, &old, NULL);
	totals = code_pair(stepped_block, 0);
	assert_true(n_steps > 1000);
	assert_int_equal(totals.starts, 24 + n_steps);
	assert_int_equal(totals.count, 16 + n_steps);
	assert_int_equal(totals.orphan_starts, 8);
	assert_int_equal(totals.orphan_stops + totals.collisions, 0);
	assert_int_equal(code_open(stepped_block, 0), 0);
	code_block_free(stepped_block);
}

TEST(calls_may_move_to_other_threads)
{
	of_calls(check_moved);
}

/* A forked child has keys of its own. Those that it leaves open are orphans when it is gone. */
static void check_children(void)
{
	struct code_block *block = new_block(16);
	int status;
	pid_t pid;

	hit_key(block, START, 7);
	pid = fork();
	if (pid == 0) {
		hit_key(block, STOP, 7); /* the parent's */
		hit_key(block, START, 7);
		hit_key(block, START, 8);
		hit_key(block, STOP, 8);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(code_pair(block, 0).orphan_stops, 1);
	assert_int_equal(code_open(block, 0), 2);
	assert_int_equal(gone_threads_starts(&block->header, block->block, 0), 1);
	hit_key(block, STOP, 7);
	assert_int_equal(code_pair(block, 0).count, 2);
	assert_int_equal(code_pair(block, 0).orphan_starts, 0);
	code_block_free(block);
}

TEST(forked_children_have_keys_of_their_own)
{
	check_children();
}

TEST(forked_children_have_calls_of_their_own)
{
	of_calls(check_children);
}

/* Whatever a process writes there, the code writes nowhere else. */
static void check_hostile(void)
{
	struct code_spec spec = our_spec(16);
	const struct pairs_slot none = { 0 };
	struct code_block *block;

	spec.n_pairs = 2;
	block = code_block_new(&spec);
	srand(3);
	for (int i = 0; i < 20000; i++) {
		struct pairs_keyed_start *entry =
			code_key(block, 0, (uint32_t)rand() % pairs_n_keys(16));
		uint64_t *pids =
			(uint64_t *)((char *)block->block + pairs_pids_off(&block->header));

		entry->pid = rand() % 4 ? (uint32_t)getpid() : (uint32_t)rand();
		entry->owner = rand() % 2 ? (uint32_t)gettid() : (uint32_t)rand() % 2;
		entry->key = rand() % 4 ? key_of(rand() % 50) : (uint64_t)rand() << 33;
		entry->ticks = (uint64_t)rand() << 33;
		pids[rand() % PAIRS_PIDS] = (uint64_t)rand() << 32 | (uint32_t)gettid();
		hit_key(block, (uint32_t)(rand() % 2), rand() % 50);
	}
	assert_int_equal(code_pair(block, 1).starts + code_pair(block, 1).orphan_stops, 0);
	for (uint32_t i = 0; i < pairs_n_in_area(&block->header); i++)
		assert_memory_equal(code_slot(block, 1, i), &none, sizeof(none));
	code_block_free(block);
}

/* An area has slots for totals only, whatever the process writes there. */
TEST(slots_that_do_not_exist_are_not_read)
{
	struct code_block *block = new_block(16);
	struct pairs_shared *shared =
		(struct pairs_shared *)(void *)(block->block + pairs_area_off(&block->header, 0));

	hit_key(block, START, 7);
	shared->used[0] = UINT64_MAX;
	assert_int_equal(code_pair(block, 0).starts, 1);
	assert_int_equal(code_pair(block, 0).count + code_pair(block, 0).orphan_starts, 0);
	shared->is_keyed = 0;
	assert_int_equal(gone_threads_starts(&block->header, block->block, 0), 0);
	code_block_free(block);
}

TEST(hostile_entries_are_harmless)
{
	check_hostile();
}

TEST(hostile_entries_of_calls_are_harmless)
{
	of_calls(check_hostile);
}

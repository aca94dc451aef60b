// SPDX-License-Identifier: MIT
/*
 * The measuring engine where arguments decide: filters and keys; and what it refuses to measure.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "measured_args.h"
#include "ocaml_heap.h"

ALONE;

/* ---- filters -------------------------------------------------------------------------------- */

TEST(filters_let_through_what_they_say)
{
	struct measured m;

	measured_prepare(&m);
	measured_set_filter(&m, "arg0 > 100 && arg1 == \"GET\"");
	m.sites[STOP].is_filtered = true;
	measured_attach(&m);
	for (int i = 0; i < 1000; i++)
		args_start(of_int(i), i % 2 ? of_string("GET") : of_string("PUT"));
	/* Odd numbers from 101 to 999. */
	args_stop(of_string("101"), of_string("GET"));
	args_stop(of_int(101), of_string("GET"));
	measured_detach(&m);
	assert_int_equal(m.hits[START], 450);
	assert_int_equal(m.hits[STOP], 1);
	assert_int_equal(m.losses.filtered, 551);
	/* The one with the string. */
	assert_int_equal(m.losses.filter_mismatches, 1);
	assert_int_equal(m.losses.last_mismatch,
			 measure_mismatch(0, filter_mismatch(0, FILTER_TYPE_STRING, false)));
	measured_finish(&m);
}

/* Of nested starts that alternate, half count; the stops of the others are no orphans. */
TEST(a_filtered_start_takes_its_stop_along)
{
	struct measured m;

	measured_prepare_pair(&m);
	measured_set_filter(&m, "arg0 == 1");
	measured_attach(&m);
	for (int i = 0; i < 8; i++)
		args_start(of_int(i % 2), of_int(0));
	for (int i = 0; i < 8; i++)
		args_stop(of_int(0), of_int(0));
	args_start(of_int(0), of_int(0));
	args_stop(of_int(0), of_int(0));
	args_stop(of_int(0), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.starts, 4);
	assert_int_equal(m.pair.count, 4);
	assert_int_equal(m.pair.orphan_starts, 0);
	assert_int_equal(m.pair.orphan_stops, 1);
	assert_int_equal(m.hits[START], 4);
	assert_int_equal(m.hits[STOP], 10);
	assert_int_equal(m.losses.filtered, 5);
	measured_finish(&m);
}

TEST(a_filtered_start_replaces_where_depth_is_1)
{
	struct measured m;

	measured_prepare_pair(&m);
	m.spec.request.depth = 1;
	measured_set_filter(&m, "arg0 == 1");
	measured_attach(&m);
	args_start(of_int(1), of_int(0));
	args_start(of_int(0), of_int(0)); /* the one before is an orphan */
	args_start(of_int(0), of_int(0)); /* that one is not */
	args_stop(of_int(0), of_int(0));
	args_start(of_int(1), of_int(0));
	args_stop(of_int(0), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.starts, 2);
	assert_int_equal(m.pair.count, 1);
	assert_int_equal(m.pair.orphan_starts, 1);
	assert_int_equal(m.pair.orphan_stops, 0);
	measured_finish(&m);
}

/* Markers in between are found, skipped and dropped like starts, and count as nothing. */
TEST(a_filtered_start_between_others_counts_as_nothing)
{
	struct measured m;

	measured_prepare_pair(&m);
	m.spec.request.depth = 4;
	measured_set_filter(&m, "arg0 == 1");
	measured_attach(&m);
	args_start(of_int(1), of_int(0)); /* of this frame: it counts */
	args_start_below(of_int(0), of_int(0));
	args_start_below(of_int(1), of_int(0)); /* the only orphan */
	args_start_below(of_int(0), of_int(0));
	args_stop(of_int(0), of_int(0));
	args_start(of_int(0), of_int(0));
	args_start_below(of_int(1), of_int(0)); /* an orphan, too */
	args_stop(of_int(0), of_int(0));	/* of the one that is filtered out */
	measured_read(&m);
	assert_int_equal(m.pair.starts, 3);
	assert_int_equal(m.pair.count, 1);
	assert_int_equal(m.pair.orphan_starts, 2);
	/* Too many: of the six, a filtered one and one that counts are dropped. */
	for (int i = 0; i < 6; i++)
		args_start_below(of_int(i % 2), of_int(0));
	for (int i = 0; i < 4; i++)
		args_stop_below(of_int(0), of_int(0));
	args_stop(of_int(0), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.starts, 3 + 3);
	assert_int_equal(m.pair.count, 1 + 2);
	assert_int_equal(m.pair.orphan_starts, 2 + 1);
	assert_int_equal(m.pair.orphan_stops, 1);
	measured_finish(&m);
}

static void *start_three(void *unused)
{
	(void)unused;
	args_start(of_int(1), of_int(0));
	args_start(of_int(0), of_int(0));
	args_start(of_int(1), of_int(0));
	return NULL;
}

TEST(a_filtered_start_is_no_orphan_of_its_thread)
{
	struct measured m;
	pthread_t thread;

	measured_prepare_pair(&m);
	measured_set_filter(&m, "arg0 == 1");
	measured_attach(&m);
	assert_int_equal(pthread_create(&thread, NULL, start_three, NULL), 0);
	pthread_join(thread, NULL);
	assert_true(await_other_threads_end());
	measured_detach(&m);
	assert_int_equal(m.pair.starts, 2);
	assert_int_equal(m.pair.orphan_starts, 2);
	measured_finish(&m);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void prepare_keys(struct measured *m, size_t max_open)
{
	measured_prepare_pair(m);
	measured_set_key(m, 0);
	m->spec.max_open = max_open;
}

static void *stop_even(void *arg)
{
	const uint64_t *keys = arg;

	for (int i = 0; i < 50; i += 2)
		args_stop(keys[i], of_int(0));
	return NULL;
}

/* Started here and stopped by another thread, in another order than LIFO. */
TEST(keys_match_across_threads)
{
	uint64_t keys[50], same[50];
	struct measured m;
	pthread_t thread;
	char text[24];

	for (int i = 0; i < 50; i++) {
		snprintf(text, sizeof(text), "request %d", i);
		keys[i] = i % 4 == 0 ? of_string(text) : of_int(i);
		same[i] = i % 4 == 0 ? of_string(text) : of_custom("_j", (uint64_t)i);
	}
	prepare_keys(&m, 64);
	measured_attach(&m);
	for (int i = 0; i < 50; i++)
		args_start(keys[i], of_int(0));
	measured_read(&m);
	assert_int_equal(m.pair.count, 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_even, same), 0);
	pthread_join(thread, NULL);
	measured_detach(&m);
	assert_int_equal(m.pair.starts, 50);
	assert_int_equal(m.pair.count, 25);
	assert_int_equal(m.pair.orphan_starts, 0);
	assert_int_equal(m.pair.orphan_stops, 0);
	assert_true(m.pair.min_ns > 0 && m.pair.min_ns <= m.pair.max_ns);
	assert_true(m.pair.sum_ns >= 25 * m.pair.min_ns && m.pair.sum_ns <= 25 * m.pair.max_ns);
	measured_finish(&m);
}

TEST(what_has_no_partner_is_counted)
{
	struct measured m;

	prepare_keys(&m, 64);
	measured_attach(&m);
	args_stop(of_int(7), of_int(0));
	args_start(of_int(7), of_int(0));
	args_start(of_int(7), of_int(0)); /* replaces */
	args_start(of_int(7), of_int(0));
	args_stop(of_int(7), of_int(0));
	args_stop(of_int(7), of_int(0));
	args_start(of_double(1), of_int(0));
	args_start(of_nowhere(), of_int(0));
	args_stop(of_double(1), of_int(0));
	args_start(of_int(8), of_int(0)); /* stays open */
	measured_detach(&m);
	assert_int_equal(m.pair.starts, 6);
	assert_int_equal(m.pair.count, 1);
	assert_int_equal(m.pair.orphan_starts, 2);
	assert_int_equal(m.pair.orphan_stops, 3);
	assert_int_equal(m.pair.not_keyed, 2);
	measured_finish(&m);
}

TEST(a_full_map_of_keys_is_counted)
{
	enum { ROOM = 8, STARTS = 20 };
	struct measured m;

	prepare_keys(&m, ROOM);
	measured_attach(&m);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < STARTS; i++)
			args_start(of_int(i), of_int(0));
		for (int i = 0; i < STARTS; i++)
			args_stop(of_int(i), of_int(0));
	}
	measured_detach(&m);
	assert_int_equal(m.pair.starts, 3 * STARTS);
	assert_int_equal(m.pair.count, 3 * ROOM);
	assert_int_equal(m.pair.map_full, 3 * (STARTS - ROOM));
	assert_int_equal(m.pair.orphan_stops, 3 * (STARTS - ROOM));
	measured_finish(&m);
}

/* A start that is filtered out leaves a marker, too; without room for it its stop is an orphan. */
TEST(filtered_starts_without_room_are_accounted_for)
{
	enum { ROOM = 8, STARTS = 20 };
	struct measured m;

	prepare_keys(&m, ROOM);
	measured_set_filter(&m, "arg1 == 1");
	measured_attach(&m);
	for (int i = 0; i < STARTS; i++)
		args_start(of_int(i), of_int(0));
	for (int i = 0; i < STARTS; i++)
		args_stop(of_int(i), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.starts, STARTS - ROOM);
	assert_int_equal(m.pair.count, 0);
	assert_int_equal(m.pair.map_full, STARTS - ROOM);
	assert_int_equal(m.pair.orphan_starts, 0);
	assert_int_equal(m.pair.orphan_stops, STARTS - ROOM);
	measured_finish(&m);
}

TEST(filtered_starts_leave_their_keys)
{
	struct measured m;

	prepare_keys(&m, 64);
	measured_set_filter(&m, "arg1 == 1");
	measured_attach(&m);
	args_start(of_int(1), of_int(0)); /* a marker, */
	args_start(of_int(1), of_int(0)); /* replaced by another, */
	args_stop(of_int(1), of_int(0));  /* ended, in silence */
	args_stop(of_int(1), of_int(0));
	args_start(of_int(2), of_int(1));
	args_start(of_int(2), of_int(0)); /* replaces one that counts */
	args_start(of_int(2), of_int(1));
	args_stop(of_int(2), of_int(0));
	args_start(of_double(1), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.starts, 2);
	assert_int_equal(m.pair.count, 1);
	assert_int_equal(m.pair.orphan_starts, 1);
	assert_int_equal(m.pair.orphan_stops, 1);
	assert_int_equal(m.pair.not_keyed, 0);
	measured_finish(&m);
}

/*
 * Processes that end give their room back, one after another, and what they left open is counted.
 */
TEST(processes_take_their_keys_along)
{
	enum { ROOM = 8, PROCESSES = 5 };
	struct measured m;
	int go[2], status;
	char c;

	prepare_keys(&m, ROOM);
	m.spec.request.children = true;
	measured_attach(&m);
	args_start(of_int(100), of_int(0));
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid;

		assert_int_equal(pipe(go), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			for (int j = 0; j < ROOM - 1; j++)
				args_start(of_int(j), of_int(0));
			args_stop(of_int(0), of_int(0));
			args_stop(of_int(100), of_int(0)); /* another process's */
			_exit(read(go[0], &c, 1) != 1);
		}
		assert_int_equal(write(go[1], "", 1), 1);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		close(go[0]);
		close(go[1]);
		measured_read(&m);
		assert_int_equal(m.pair.count, i + 1);
		assert_int_equal(m.pair.orphan_starts, (i + 1) * (ROOM - 2));
	}
	args_stop(of_int(100), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.count, PROCESSES + 1);
	assert_int_equal(m.pair.orphan_stops, PROCESSES);
	assert_int_equal(m.pair.map_full, 0);
	assert_int_equal(m.pair.starts, m.pair.count + m.pair.orphan_starts);
	measured_finish(&m);
}

enum { BUSY_ROUNDS = 50000 };

static void *start_and_stop(void *unused)
{
	(void)unused;
	for (int i = 0; i < BUSY_ROUNDS; i++) {
		args_start(of_int(i & 1), of_int(0));
		args_stop(of_int(i & 1), of_int(0));
	}
	return NULL;
}

/* Whichever thread wins, each start and each stop is in exactly one of the counters. */
TEST(one_key_in_many_threads_is_accounted_for)
{
	const uint64_t all = (uint64_t)N_THREADS * BUSY_ROUNDS;
	pthread_t threads[N_THREADS];
	const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	struct measured m;
	uint64_t open;

	prepare_keys(&m, 64);
	measured_attach(&m);
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, start_and_stop, NULL), 0);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	measured_read(&m);
	open = m.pair.starts - m.pair.count - m.pair.orphan_starts;
	assert_true(open <= 2);
	args_stop(of_int(0), of_int(0));
	args_stop(of_int(1), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.starts, all);
	assert_int_equal(m.pair.count + m.pair.orphan_starts, all);
	assert_int_equal(m.pair.count + m.pair.orphan_stops, all + 2);
	assert_int_equal(m.hits[START], all);
	assert_true(m.pair.max_ns < (uint64_t)(clock_ns(CLOCK_MONOTONIC) - start_ns));
	measured_finish(&m);
}

/* ---- refusals ------------------------------------------------------------------------------- */

TEST(perf_events_cannot)
{
	static const struct engine_bpf_options perf = { .perf_events = true };
	struct measured m;

	measured_prepare(&m);
	measured_set_filter(&m, "arg0 == 1");
	assert_int_equal(engine_bpf_open(m.ctx, &m.spec, &perf, &m.engine), -EOPNOTSUPP);
	assert_non_null(strstr(ocp_error(m.ctx), "arguments need uprobe_multi links"));
	ocp_ctx_free(m.ctx);
}

TEST(too_much_is_refused)
{
	struct measured m;

	measured_prepare(&m);
	m.spec.n_histograms = MEASURE_MAX_HISTOGRAMS + 1;
	assert_int_equal(engine_bpf.open(m.ctx, &m.spec, &m.engine), -E2BIG);
	m.spec.n_histograms = 1;
	m.spec.max_args = 0;
	assert_int_equal(engine_bpf.open(m.ctx, &m.spec, &m.engine), 0);
	assert_int_equal(engine_bpf.attach(m.engine, &m.file, 1), -E2BIG);
	measured_finish(&m);
}

/* ---- pairs by thread whose arguments are compared ------------------------------------------- */

/* Three requests of one thread that end in the order of their starts: by thread, as parentheses. */
static void play_three(uint64_t (*of)(int))
{
	for (int i = 1; i <= 3; i++)
		args_start(of(i), of_int(0));
	for (int i = 1; i <= 3; i++)
		args_stop(of(i), of_int(0));
}

static uint64_t int_of(int i)
{
	return of_int(i);
}

static uint64_t text_of(int i)
{
	char text[24];

	snprintf(text, sizeof(text), "request %d", i);
	return of_string(text);
}

/* A value that cannot be a key. */
static uint64_t float_of(int i)
{
	return of_double(i);
}

TEST(mismatches_are_counted)
{
	struct measured m;

	measured_prepare_pair(&m);
	measured_compare(&m, 0);
	measured_attach(&m);
	/* 3 ends 1, 2 ends 2, 1 ends 3. */
	play_three(int_of);
	measured_read(&m);
	assert_int_equal(m.pair.mismatched, 2);
	play_three(text_of);
	measured_read(&m);
	assert_int_equal(m.pair.mismatched, 4);
	/* What is not known is not compared. */
	play_three(float_of);
	args_start(of_int(0), of_int(0));
	args_stop(of_double(0), of_int(0));
	measured_read(&m);
	assert_int_equal(m.pair.mismatched, 4);
	/* 0 is a value. */
	args_start(of_int(0), of_int(0));
	args_stop(of_int(1), of_int(0));
	args_start(of_int(0), of_int(0));
	args_stop(of_int(0), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.mismatched, 5);
	assert_int_equal(m.pair.count, m.pair.starts);
	assert_int_equal(m.pair.count, 3 * 3 + 3);
	assert_int_equal(m.pair.orphan_starts + m.pair.orphan_stops, 0);
	measured_finish(&m);
}

/* Nested pairs are no mismatch, and neither are stops whose starts were skipped or dropped. */
TEST(nested_pairs_do_not_mismatch)
{
	struct measured m;

	measured_prepare_pair(&m);
	measured_compare(&m, 0);
	m.spec.request.depth = 4;
	measured_attach(&m);
	for (int i = 0; i < 4; i++)
		args_start(of_int(i), of_int(0));
	for (int i = 3; i >= 0; i--)
		args_stop(of_int(i), of_int(0));
	/* One more than the depth. */
	for (int i = 0; i < 5; i++)
		args_start(of_int(i), of_int(0));
	for (int i = 4; i >= 0; i--)
		args_stop(of_int(i), of_int(0));
	/* An exception skips the stop of a call. */
	args_start(of_int(7), of_int(0));
	args_start_below(of_int(8), of_int(0));
	args_stop(of_int(7), of_int(0));
	measured_detach(&m);
	assert_int_equal(m.pair.mismatched, 0);
	assert_int_equal(m.pair.orphan_starts, 2);
	assert_int_equal(m.pair.orphan_stops, 1);
	measured_finish(&m);
}

/*
 * Two pairs of the same probes: by the first argument, and by thread with the second one compared.
 */
TEST(pairs_of_both_kinds)
{
	struct engine_role roles[] = {
		{ .pair = 0, .is_keyed = true, .key_arg = 0 },
		{ .pair = 1, .is_compared = true, .key_arg = 1 },
		{ .pair = 0, .is_stop = true, .is_keyed = true, .key_arg = 0 },
		{ .pair = 1, .is_stop = true, .is_compared = true, .key_arg = 1 },
	};
	struct ocp_pair pairs[2];
	uint64_t buckets[2][OCP_BUCKETS];
	uint64_t hits[N_SITES];
	struct engine_reading reading = { .hits = hits, .pairs = pairs, .pair_buckets = buckets };
	struct measured m;

	measured_prepare_pair(&m);
	m.spec.roles = roles;
	m.spec.n_roles = 4;
	m.spec.request.n_pairs = 2;
	m.sites[START].n_roles = m.sites[STOP].n_roles = 2;
	m.sites[STOP].first_role = 2;
	measured_attach(&m);
	for (int i = 0; i < 3; i++)
		args_start(of_int(i), of_int(i));
	for (int i = 0; i < 3; i++)
		args_stop(of_int(i), of_int(i));
	assert_int_equal(engine_bpf.detach(m.engine), 0);
	assert_int_equal(engine_bpf.read(m.engine, &reading), 0);
	assert_int_equal(pairs[0].count, 3);
	assert_int_equal(pairs[0].mismatched, 0);
	assert_int_equal(pairs[1].count, 3);
	assert_int_equal(pairs[1].mismatched, 2);
	assert_int_equal(pairs[0].orphan_starts + pairs[1].orphan_starts, 0);
	measured_finish(&m);
}

/*
 * The N-th of 16 words of eight bits (the extended Hamming code): any three bits have each of their
 * eight values in two of the words.
 */
static unsigned int covering_word(unsigned int n)
{
	return (n & 1 ? 0x0f : 0) ^ (n & 2 ? 0x33 : 0) ^ (n & 4 ? 0x55 : 0) ^ (n & 8 ? 0xff : 0);
}

/*
 * The request decides which code the verifier examines. Any three features are requested together;
 * with COMBINATIONS=all, all of them.
 */
TEST(every_combination_loads)
{
	const bool all = getenv("COMBINATIONS") != NULL;
	struct measured m;

	for (unsigned int n = 0; n < (all ? 256 : 16); n++) {
		unsigned int bits = all ? n : covering_word(n);

		/* Without a pair nothing is compared. */
		if (!(bits & 1))
			bits &= ~128u;
		bits & 1 ? measured_prepare_pair(&m) : measured_prepare(&m);
		if (bits & 2)
			measured_set_filter(&m, "arg0 == 1");
		m.spec.n_histograms = bits >> 2 & 1;
		m.spec.request.printed.n = bits & 8;
		m.spec.print_bytes = SMALL_RING;
		if (bits & 1 && bits & 16)
			measured_set_key(&m, 15);
		if (bits & 128)
			measured_compare(&m, 14);
		m.spec.request.split = bits & 32 ? OCP_BY_THREAD : OCP_BY_PROBE;
		m.spec.max_keys = 16;
		m.spec.request.stack_depth = bits & 64 ? WALK_MAX_DEPTH : 0;
		assert_int_equal(engine_bpf.open(m.ctx, &m.spec, &m.engine), 0);
		measured_finish(&m);
	}
}

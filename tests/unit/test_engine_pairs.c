// SPDX-License-Identifier: MIT
/* The measuring engine: pairs, hits by thread and process, sets of processes, perf events. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "measured_child.h"

ALONE;

enum { START, STOP, N_SITES };

struct measured {
	struct ocp_ctx *ctx;
	struct child child;
	struct engine_site sites[N_SITES];
	struct engine_role roles[N_SITES];
	struct engine_file file;
	struct engine_spec spec;
	struct engine *engine;
	struct ocp_pair pair;
	uint64_t buckets[1][OCP_BUCKETS];
	uint64_t hits[N_SITES];
};

static void prepare(struct measured *m)
{
	*m = (struct measured){ .ctx = ctx_or_skip(),
				.sites = { start_site(), stop_site() },
				.roles = { { .pair = 0 }, { .is_stop = true } } };
	child_start(&m->child);
	for (unsigned int i = 0; i < N_SITES; i++) {
		m->sites[i].first_role = i;
		m->sites[i].n_roles = 1;
	}
	m->file = engine_file_of(&m->child.pid, m->sites, N_SITES);
	m->spec = spec_of(&m->file);
	m->spec.roles = m->roles;
	m->spec.n_roles = N_SITES;
	m->spec.request.n_pairs = 1;
	m->spec.max_open = 64;
	m->spec.request.depth = 8;
}

static void attach(struct measured *m, const struct engine_bpf_options *options)
{
	int err = engine_bpf_open(m->ctx, &m->spec, options, &m->engine);

	if (!err)
		err = engine_bpf.attach(m->engine, &m->file, 1);
	if (err)
		print_message("%s\n", ocp_error(m->ctx));
	assert_int_equal(err, 0);
}

static void run(struct measured *m, const char *script, unsigned int threads, unsigned int times)
{
	struct order order = { RUN_SCRIPT, threads, times, "" };

	snprintf(order.script, sizeof(order.script), "%s", script);
	child_run(&m->child, order);
}

static void finish(struct measured *m)
{
	struct engine_reading reading = { .hits = m->hits,
					  .pairs = &m->pair,
					  .pair_buckets = m->buckets };

	assert_int_equal(engine_bpf.detach(m->engine), 0);
	assert_int_equal(engine_bpf.read(m->engine, &reading), 0);
	free(reading.keyed);
	engine_bpf.close(m->engine);
	child_end(&m->child);
	ocp_ctx_free(m->ctx);
}

static uint64_t in_buckets(const struct measured *m)
{
	uint64_t n = 0;

	for (size_t i = 0; i < MEASURE_BUCKETS; i++)
		n += m->buckets[0][i];
	return n;
}

TEST(pairs_of_threads_are_exact)
{
	struct measured m;

	prepare(&m);
	attach(&m, NULL);
	run(&m, "()", 4, 20000);
	run(&m, "(((((((())))))))", 2, 1000);
	finish(&m);
	assert_int_equal(m.pair.starts, 4 * 20000 + 2 * 8 * 1000);
	assert_int_equal(m.pair.count, m.pair.starts);
	assert_int_equal(in_buckets(&m), m.pair.count);
	assert_int_equal(m.pair.orphan_starts + m.pair.orphan_stops, 0);
	assert_true(m.pair.min_ns > 0 && m.pair.min_ns <= m.pair.max_ns);
	assert_true(m.pair.sum_ns >= m.pair.count * m.pair.min_ns);
	assert_true(m.pair.sum_ns <= m.pair.count * m.pair.max_ns);
	assert_int_equal(m.hits[START], m.pair.starts);
	assert_int_equal(m.hits[STOP], m.pair.starts);
}

/* A nested pair lies within the one around it. */
TEST(nested_times_add_up)
{
	struct measured m;

	prepare(&m);
	attach(&m, NULL);
	run(&m, "(())", 1, 1);
	finish(&m);
	assert_int_equal(m.pair.count, 2);
	assert_int_equal(m.pair.sum_ns, m.pair.min_ns + m.pair.max_ns);
	assert_true(m.pair.min_ns < m.pair.max_ns);
}

TEST(orphans_are_counted)
{
	struct measured m;

	prepare(&m);
	attach(&m, NULL);
	run(&m, "(())))", 3, 1); /* 2 pairs, 2 orphan stops a thread */
	run(&m, "((()", 5, 1);	 /* 1 pair, 2 starts that end with their thread */
	finish(&m);
	assert_int_equal(m.pair.count, 3 * 2 + 5 * 1);
	assert_int_equal(m.pair.orphan_stops, 3 * 2);
	assert_int_equal(m.pair.orphan_starts, 5 * 2);
	assert_int_equal(m.pair.starts, m.pair.count + m.pair.orphan_starts);
}

/* One start more than there is room for drops the oldest, whose stop is an orphan in the end. */
TEST(the_oldest_makes_room)
{
	struct measured m;

	prepare(&m);
	m.spec.request.depth = 3;
	attach(&m, NULL);
	run(&m, "0(1(2(3(4()3)2)1)0)", 2, 10); /* the outer 2 of 5 */
	run(&m, "0(1(2(3(4(3)2)1)", 2, 10);    /* the same, and 4 is skipped */
	finish(&m);
	assert_int_equal(m.pair.starts, 2 * 10 * 10);
	assert_int_equal(m.pair.count, 2 * 10 * (3 + 2));
	assert_int_equal(m.pair.orphan_starts, 2 * 10 * (2 + 3));
	assert_int_equal(m.pair.orphan_stops, 2 * 10 * (2 + 1));
}

/* Times go on after more skipped stops than there is room for, and however many there are. */
TEST(timing_recovers_from_skipped_stops)
{
	struct measured m;

	prepare(&m);
	m.spec.request.depth = MEASURE_DEPTH;
	attach(&m, NULL);
	/* One thread. In each round, 40 are skipped by an exception that no pair is around. */
	run(&m, "2((((((((((((((((((((((((((((((((((((((((1(2()1)", 1, 100);
	finish(&m);
	assert_int_equal(m.pair.count, 2 * 100);
	assert_int_equal(m.pair.orphan_stops, 0);
	assert_int_equal(m.pair.orphan_starts, 40 * 100);
	assert_int_equal(m.pair.starts, m.pair.count + m.pair.orphan_starts);
}

enum { PAUSE_NS = 2000000 };

/* A stop ends the start of its own stack pointer; what came after that is over. */
TEST(a_stop_ends_the_start_of_its_frame)
{
	struct measured m;

	prepare(&m);
	attach(&m, NULL);
	run(&m, "0(!1(2(0)", 2, 10);
	run(&m, "0(!1(2(3(1)0)3)", 1, 10); /* there is none for the last */
	run(&m, "0(1(1(2(1)1)0)", 1, 10);  /* equal ones: the newest first */
	finish(&m);
	assert_int_equal(m.pair.count, 2 * 10 + 2 * 10 + 3 * 10);
	assert_int_equal(m.pair.orphan_starts, 2 * 10 * 2 + 2 * 10 + 10);
	assert_int_equal(m.pair.orphan_stops, 10);
	assert_int_equal(m.pair.starts, m.pair.count + m.pair.orphan_starts);
	assert_true(m.pair.sum_ns >= (uint64_t)30 * PAUSE_NS);
}

/* Of functions that enter and leave no two have the same stack pointer. */
TEST(a_stop_of_no_frame_ends_the_newest_start)
{
	struct measured m;

	prepare(&m);
	attach(&m, NULL);
	run(&m, "1(2(3(0)4)5)", 2, 100);
	run(&m, "5(3(!0)", 1, 10); /* above them, as a function that left is */
	run(&m, "1(2(3(4(0)2)", 1,
	    10); /* the newest, then by its frame: 3 and, at the end, 1 are over */
	finish(&m);
	assert_int_equal(m.pair.count, 2 * 100 * 3 + 10 + 2 * 10);
	assert_int_equal(m.pair.orphan_starts, 10 + 2 * 10);
	assert_int_equal(m.pair.orphan_stops, 0);
	assert_int_equal(m.pair.starts, m.pair.count + m.pair.orphan_starts);
	assert_true(m.pair.sum_ns >= (uint64_t)10 * PAUSE_NS);
}

TEST(with_depth_1_a_start_replaces_the_one_before)
{
	struct measured m;

	prepare(&m);
	m.spec.request.depth = 1;
	attach(&m, NULL);
	run(&m, "((()", 2, 1000);
	finish(&m);
	assert_int_equal(m.pair.count, 2 * 1000);
	assert_int_equal(m.pair.orphan_starts, 2 * 1000 * 2);
}

TEST(a_full_map_is_counted)
{
	struct measured m;

	prepare(&m);
	m.spec.max_open = 1;
	attach(&m, NULL);
	/* Threads one after another share the room; of two at a time one has none. */
	run(&m, "()", 1, 10);
	run(&m, "()", 1, 10);
	assert_int_equal(m.pair.map_full, 0);
	run(&m, "(((", 8, 2000);
	finish(&m);
	assert_int_equal(m.pair.starts, 20 + 8 * 2000 * 3);
	assert_int_equal(m.pair.count, 20);
	assert_true(m.pair.map_full > 0);
	assert_int_equal(m.pair.starts, m.pair.count + m.pair.map_full + m.pair.orphan_starts);
}

static void tell_threads_apart(bool in_pair)
{
	struct engine_reading reading = { 0 };
	uint64_t sum = 0;
	struct measured m;

	prepare(&m);
	if (!in_pair)
		m.spec.request.n_pairs = m.spec.n_roles = m.sites[START].n_roles =
			m.sites[STOP].n_roles = 0;
	m.spec.request.split = OCP_BY_THREAD;
	m.spec.max_keys = 100;
	m.sites[START].is_keyed = true;
	m.sites[START].probe_index = 7;
	attach(&m, NULL);
	run(&m, "()", 5, 1234);
	reading = (struct engine_reading){ .hits = m.hits,
					   .pairs = &m.pair,
					   .pair_buckets = m.buckets };
	assert_int_equal(engine_bpf.read(m.engine, &reading), 0);
	assert_int_equal(reading.n_keyed, 5);
	for (size_t i = 0; i < reading.n_keyed; i++) {
		assert_int_equal(reading.keyed[i].probe_index, 7);
		assert_int_equal(reading.keyed[i].hits, 1234);
		assert_int_equal(reading.keyed[i].tgid, m.child.pid);
		assert_int_not_equal(reading.keyed[i].id, m.child.pid);
		assert_string_equal(reading.keyed[i].comm, "unit-tests");
		sum += reading.keyed[i].hits;
	}
	assert_int_equal(sum, 5 * 1234);
	free(reading.keyed);
	finish(&m);
}

/* Whether or not they need to be known for pairs, too. */
TEST(hits_are_told_apart_by_thread)
{
	tell_threads_apart(true);
	tell_threads_apart(false);
}

TEST(keys_without_room_are_counted)
{
	struct engine_reading reading = { 0 };
	uint64_t sum = 0;
	struct measured m;

	prepare(&m);
	m.spec.request.split = OCP_BY_THREAD;
	m.spec.max_keys = 2;
	m.sites[START].is_keyed = true;
	attach(&m, NULL);
	run(&m, "(", 6, 1000);
	reading = (struct engine_reading){ .hits = m.hits,
					   .pairs = &m.pair,
					   .pair_buckets = m.buckets };
	assert_int_equal(engine_bpf.read(m.engine, &reading), 0);
	for (size_t i = 0; i < reading.n_keyed; i++)
		sum += reading.keyed[i].hits;
	assert_true(reading.losses.rows_full > 0);
	assert_int_equal(sum + reading.losses.rows_full, 6 * 1000);
	free(reading.keyed);
	finish(&m);
}

/* Two processes are meant, a third is not. */
TEST(a_set_of_processes_is_counted)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_reading reading = { 0 };
	struct child children[3];
	struct engine_file file;
	struct engine_spec spec;
	struct engine *engine;
	uint64_t hits;
	pid_t pids[2];

	for (int i = 0; i < 3; i++)
		child_start(&children[i]);
	pids[0] = children[0].pid;
	pids[1] = children[1].pid;
	file = engine_file_of(pids, &site, 1);
	file.n_pids = 2;
	spec = spec_of(&file);
	spec.many_processes = true;
	assert_int_equal(engine_bpf.open(ctx, &spec, &engine), 0);
	assert_int_equal(engine_bpf.attach(engine, &file, 1), 0);
	for (int i = 0; i < 3; i++)
		child_run(&children[i], (struct order){ RUN_HOT, 2, 1000, "" });
	reading.hits = &hits;
	assert_int_equal(engine_bpf.read(engine, &reading), 0);
	assert_int_equal(hits, 4000);
	assert_int_equal(reading.losses.passed_over, 2000);
	/* What they fork is not. */
	child_run(&children[0], (struct order){ FORK_AND_RUN_HOT, 1, 500, "" });
	assert_int_equal(read_hot(engine), 4000);
	engine_bpf.close(engine);
	for (int i = 0; i < 3; i++)
		child_end(&children[i]);
	ocp_ctx_free(ctx);
}

TEST(children_are_followed)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct child child, bystander;
	struct engine_file file;
	struct engine_spec spec;
	struct engine *engine;

	child_start(&child);
	child_start(&bystander);
	file = engine_file_of(&child.pid, &site, 1);
	spec = spec_of(&file);
	spec.request.children = true;
	assert_int_equal(engine_bpf.open(ctx, &spec, &engine), 0);
	assert_int_equal(engine_bpf.attach(engine, &file, 1), 0);
	child_run(&child, (struct order){ RUN_HOT, 1, 1000, "" });
	for (int i = 0; i < 20; i++)
		child_run(&child, (struct order){ FORK_AND_RUN_HOT, 2, 100, "" });
	child_run(&bystander, (struct order){ FORK_AND_RUN_HOT, 1, 10000, "" });
	assert_int_equal(read_hot(engine), 1000 + 20 * 200);
	engine_bpf.close(engine);
	child_end(&child);
	child_end(&bystander);
	ocp_ctx_free(ctx);
}

/* Its parent fills the list; they are passed over, and each is counted once, whatever it runs. */
TEST(children_without_room_are_counted)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_reading reading = { 0 };
	struct engine_file file;
	struct engine_spec spec;
	struct engine *engine;
	struct child child;
	uint64_t hits;

	child_start(&child);
	file = engine_file_of(&child.pid, &site, 1);
	spec = spec_of(&file);
	spec.request.children = true;
	spec.max_processes = 1;
	assert_int_equal(engine_bpf.open(ctx, &spec, &engine), 0);
	assert_int_equal(engine_bpf.attach(engine, &file, 1), 0);
	for (int i = 0; i < 5; i++)
		child_run(&child, (struct order){ FORK_AND_RUN_HOT, 2, 100, "" });
	child_run(&child, (struct order){ RUN_HOT, 1, 1000, "" });
	reading.hits = &hits;
	assert_int_equal(engine_bpf.read(engine, &reading), 0);
	assert_int_equal(hits, 1000);
	assert_int_equal(reading.losses.children_full, 5);
	assert_int_equal(reading.losses.passed_over, 5 * 200);
	engine_bpf.close(engine);
	child_end(&child);
	ocp_ctx_free(ctx);
}

/* As on a kernel without uprobe_multi: exact as well, and the price is said. */
TEST(perf_events_do_as_well)
{
	static const struct engine_bpf_options perf = { .perf_events = true };
	struct measured m;

	prepare(&m);
	attach(&m, &perf);
	assert_non_null(strstr(last_warning, "no uprobe_multi links: detaching from 2 sites"));
	run(&m, "()", 3, 5000);
	finish(&m);
	assert_int_equal(m.pair.count, 15000);
	assert_int_equal(m.pair.orphan_stops, 0);
	assert_int_equal(m.hits[START], 15000);
}

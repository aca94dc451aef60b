// SPDX-License-Identifier: MIT
/* Sites switched off and on while a busy process runs through them: nothing else is miscounted. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "measured_child.h"

ALONE;

enum {
	N_THREADS = 6,
	N_SITES = 40, /* of test_many; then come hot, start and stop */
	HOT = N_SITES,
	START,
	STOP,
	N_ALL,
};

/* It is the kernel's side that is tested here; the sanitizers see enough of ours in a few. */
#ifdef __SANITIZE_ADDRESS__
enum { N_SWITCHES = 10, N_FEWER_SWITCHES = 5 };
#else
enum { N_SWITCHES = 100, N_FEWER_SWITCHES = 20 };
#endif

/* The last file is one more link with one site, the stop. It could be another file. */
struct setting {
	struct ocp_ctx *ctx;
	struct child child;
	struct engine_site sites[N_ALL];
	struct engine_file files[2];
	struct engine *engine;
	uint64_t hits[N_ALL];
	struct ocp_pair pair;
	uint64_t buckets[1][OCP_BUCKETS];
};

/* What all settings have. */
static struct engine_spec prepare(struct setting *s)
{
	struct engine_site *many = calloc(N_MANY, sizeof(*many));
	struct engine_spec spec;

	assert_non_null(many);
	*s = (struct setting){ .ctx = ctx_or_skip() };
	many_sites(many);
	memcpy(s->sites, many, N_SITES * sizeof(*many));
	free(many);
	s->sites[HOT] = hot_site();
	s->sites[START] = start_site();
	s->sites[STOP] = stop_site();
	child_start(&s->child);
	s->files[0] = engine_file_of(&s->child.pid, s->sites, STOP);
	s->files[1] = engine_file_of(&s->child.pid, &s->sites[STOP], 1);
	s->files[1].first_site = STOP;
	spec = spec_of(&s->files[0]);
	spec.max_sites = N_ALL;
	spec.can_switch = true;
	return spec;
}

static void attach(struct setting *s, const struct engine_spec *spec,
		   const struct engine_bpf_options *options)
{
	int err = engine_bpf_open(s->ctx, spec, options, &s->engine);

	if (!err)
		err = engine_bpf.attach(s->engine, s->files, 2);
	if (err)
		print_message("%s\n", ocp_error(s->ctx));
	assert_int_equal(err, 0);
}

static void tear_down(struct setting *s)
{
	engine_bpf.close(s->engine);
	await_hot_site(&s->child, NOP, 0);
	child_await(&s->child, &many_semaphore, 2, 0);
	child_end(&s->child);
	ocp_ctx_free(s->ctx);
}

static void read_all(struct setting *s)
{
	struct engine_reading reading = { .hits = s->hits,
					  .pairs = &s->pair,
					  .pair_buckets = s->buckets };

	assert_int_equal(engine_bpf.read(s->engine, &reading), 0);
}

static void apply(struct setting *s)
{
	int err = engine_bpf.switch_sites(s->engine, &s->files[0]);

	if (err)
		print_message("%s\n", ocp_error(s->ctx));
	assert_int_equal(err, 0);
}

static bool is_busy(const struct setting *s)
{
	struct pollfd done = { .fd = s->child.done, .events = POLLIN };

	return poll(&done, 1, 0) == 0;
}

/* Each time other ones of the first N_SITES; mostly that is a handover. Ends with some off. */
static unsigned int switch_while_busy(struct setting *s)
{
	unsigned int n = 0;
	char c;

	while (is_busy(s)) {
		for (size_t i = 0; i < N_SITES; i++)
			s->sites[i].is_off = random() & 1;
		apply(s);
		n++;
	}
	assert_int_equal(read(s->child.done, &c, 1), 1);
	return n;
}

/* Those that are off have no uprobe, the others count. */
static void assert_only_on_count(struct setting *s)
{
	uint64_t before[N_ALL];
	size_t n_on = 0;

	read_all(s);
	memcpy(before, s->hits, sizeof(before));
	child_run(&s->child, (struct order){ RUN_MANY, 1, 10, "" });
	read_all(s);
	for (size_t i = 0; i < N_SITES; i++) {
		assert_int_equal(s->hits[i] - before[i], s->sites[i].is_off ? 0 : 10);
		child_await(&s->child, many_site(i), 1, s->sites[i].is_off ? NOP : INT3);
		n_on += !s->sites[i].is_off;
	}
	child_await(&s->child, &many_semaphore, 2, n_on);
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* Switch N times at least while ORDER is obeyed, over and over. Returns how often it was. */
static unsigned int keep_switching(struct setting *s, struct order order, unsigned int n)
{
	unsigned int n_switches = 0, n_orders = 0;

	srandom(1);
	for (; n_switches < n; n_orders++) {
		child_order(&s->child, order);
		n_switches += switch_while_busy(s);
	}
	return n_orders;
}

TEST(hits_of_others_are_exact)
{
	const struct order order = { RUN_HOT, N_THREADS, 100000, "" };
	struct setting s;
	struct engine_spec spec = prepare(&s);
	unsigned int n_orders;

	attach(&s, &spec, NULL);
	n_orders = keep_switching(&s, order, N_SWITCHES);
	read_all(&s);
	assert_int_equal(s.hits[HOT], (uint64_t)n_orders * N_THREADS * order.times);
	assert_only_on_count(&s);
	tear_down(&s);
}

/* The same threads go through sites that are handed over and such as are not. */
TEST(pairs_of_others_are_exact)
{
	static const struct engine_role roles[] = { { .pair = 0 }, { .pair = 0, .is_stop = true } };
	const struct order order = { RUN_SCRIPT, N_THREADS, 30000, "(())" };
	struct setting s;
	struct engine_spec spec = prepare(&s);
	uint64_t expected;

	s.sites[START].n_roles = s.sites[STOP].n_roles = 1;
	s.sites[STOP].first_role = 1;
	spec.roles = roles;
	spec.n_roles = 2;
	spec.request.n_pairs = 1;
	spec.max_open = 64;
	spec.request.depth = 32;
	attach(&s, &spec, NULL);
	expected =
		(uint64_t)keep_switching(&s, order, N_FEWER_SWITCHES) * N_THREADS * order.times * 2;
	read_all(&s);
	assert_int_equal(s.hits[START], expected);
	assert_int_equal(s.hits[STOP], expected);
	assert_int_equal(s.pair.count, expected);
	assert_int_equal(s.pair.starts, expected);
	assert_int_equal(s.pair.orphan_stops, 0);
	assert_int_equal(s.pair.orphan_starts, 0);
	tear_down(&s);
}

/* The program that may sleep, in every process of an executable. */
TEST(hits_of_all_processes_are_exact)
{
	const struct order order = { RUN_HOT, N_THREADS, 30000, "" };
	struct setting s;
	struct engine_spec spec = prepare(&s);
	unsigned int n_orders;

	spec.exe = "/proc/self/exe";
	s.files[0].n_pids = s.files[1].n_pids = 0;
	s.files[0].check_exe = true;
	attach(&s, &spec, NULL);
	n_orders = keep_switching(&s, order, N_FEWER_SWITCHES);
	read_all(&s);
	assert_int_equal(s.hits[HOT], (uint64_t)n_orders * N_THREADS * order.times);
	assert_only_on_count(&s);
	tear_down(&s);
}

TEST(links_do_not_pile_up)
{
	enum { FEW = 12 };
	struct setting s;
	struct engine_spec spec = prepare(&s);
	size_t most = 0;

	attach(&s, &spec, NULL);
	for (size_t i = 0; i < FEW; i++)
		s.sites[i].is_off = true;
	apply(&s);
	for (size_t i = 0; i < FEW; i++) {
		s.sites[i].is_off = false;
		apply(&s);
		most = s.engine->n_links > most ? s.engine->n_links : most;
	}
	assert_in_range(most, 3, 9);
	assert_only_on_count(&s);

	/* One with a link of its own takes nothing else along. */
	s.sites[FEW - 1].is_off = true;
	apply(&s);
	assert_only_on_count(&s);
	for (size_t i = 0; i < STOP; i++)
		s.sites[i].is_off = true;
	apply(&s);
	assert_int_equal(s.engine->n_links, 1);
	assert_only_on_count(&s);

	/* With nothing attached, what comes later has its place. */
	s.sites[3].is_off = false;
	apply(&s);
	assert_only_on_count(&s);
	tear_down(&s);
}

/* Descriptors of what links there are now, as `bpftool link` has them for a moment. */
static size_t hold_links(const struct setting *s, int *held, size_t n)
{
	for (size_t i = 0; i < s->engine->n_links; i++) {
		held[n] = dup(s->engine->links[i].fd);
		assert_true(held[n++] >= 0);
	}
	return n;
}

static void assert_counts(struct setting *s, const bool *is_on)
{
	uint64_t before[N_ALL];

	read_all(s);
	memcpy(before, s->hits, sizeof(before));
	child_run(&s->child, (struct order){ RUN_MANY, 1, 10, "" });
	read_all(s);
	for (size_t i = 0; i < N_SITES; i++)
		assert_int_equal(s->hits[i] - before[i], is_on[i] ? 10 : 0);
}

/* Another process that holds a link keeps its uprobes after we close it. These do not count. */
static void links_that_others_have_do_not_count(const struct engine_bpf_options *options,
						int rounds)
{
	enum { MAX_ROUNDS = 3 };
	int held[(MAX_ROUNDS + 1) * 2 * N_ALL];
	bool is_on[N_SITES];
	size_t n_held = 0;
	struct setting s;
	struct engine_spec spec = prepare(&s);

	attach(&s, &spec, options);
	for (int round = 0; round < rounds; round++) {
		n_held = hold_links(&s, held, n_held);
		for (int i = 0; i < N_SITES; i++) {
			is_on[i] = i % (round + 2) == 0;
			s.sites[i].is_off = !is_on[i];
		}
		apply(&s);
		assert_counts(&s, is_on);
	}
	n_held = hold_links(&s, held, n_held);
	for (int i = 0; i < N_SITES; i++)
		s.sites[i].is_off = !(is_on[i] = false);
	apply(&s);
	assert_counts(&s, is_on);
	/* They are there, all the same. */
	assert_int_equal(child_peek(&s.child, many_site(0), 1), INT3);
	while (n_held)
		close(held[--n_held]);
	tear_down(&s);
}

TEST(links_that_others_have)
{
	links_that_others_have_do_not_count(NULL, 3);
}

TEST(perf_events_that_others_have)
{
	links_that_others_have_do_not_count(&(struct engine_bpf_options){ .perf_events = true }, 1);
}

TEST(perf_events_are_switched_one_by_one)
{
	static const struct engine_bpf_options perf = { .perf_events = true };
	enum { FEW = 4 };
	struct setting s;
	struct engine_spec spec = prepare(&s);

	s.files[0] = engine_file_of(&s.child.pid, s.sites, FEW);
	s.files[1] = engine_file_of(&s.child.pid, &s.sites[HOT], 1);
	s.files[1].first_site = FEW;
	for (size_t i = FEW; i < N_SITES; i++)
		s.sites[i].is_off = true;
	s.sites[1].is_off = true;
	attach(&s, &spec, &perf);
	assert_only_on_count(&s);
	s.sites[0].is_off = true;
	s.sites[1].is_off = false;
	child_order(&s.child, (struct order){ RUN_HOT, 2, 30000, "" });
	apply(&s);
	while (is_busy(&s))
		sleep_ms(5);
	assert_int_equal(read(s.child.done, &(char){ 0 }, 1), 1);
	assert_only_on_count(&s);
	assert_int_equal(s.hits[FEW], 60000);
	tear_down(&s);
}

/* What was attached to them counts no more, what others get them for begins at 0. */
TEST(numbers_are_used_again)
{
	static const struct engine_bpf_options perf = { .perf_events = true };
	enum { FEW = 3 };

	for (int uses_perf = 0; uses_perf < 2; uses_perf++) {
		struct setting s;
		struct engine_spec spec = prepare(&s);
		uint64_t taken[FEW];

		s.files[0] = engine_file_of(&s.child.pid, s.sites, FEW);
		s.files[1] = engine_file_of(&s.child.pid, &s.sites[HOT], 1);
		s.files[1].first_site = FEW;
		attach(&s, &spec, uses_perf ? &perf : NULL);
		child_run(&s.child, (struct order){ RUN_MANY, 1, 10, "" });
		child_run(&s.child, (struct order){ RUN_HOT, 2, 50, "" });
		engine_bpf.give_up(s.engine, 0, FEW, taken);
		child_await(&s.child, many_site(1), 1, NOP);
		for (size_t i = 0; i < FEW; i++)
			assert_int_equal(taken[i], 10);
		child_run(&s.child, (struct order){ RUN_MANY, 1, 10, "" });
		read_all(&s);
		assert_int_equal(s.hits[0] + s.hits[1] + s.hits[2], 0);

		s.files[0] = engine_file_of(&s.child.pid, &s.sites[FEW], 2);
		s.files[0].first_site = 1;
		assert_int_equal(engine_bpf.attach(s.engine, s.files, 1), 0);
		child_run(&s.child, (struct order){ RUN_MANY, 1, 7, "" });
		s.sites[FEW].is_off = true;
		apply(&s);
		child_run(&s.child, (struct order){ RUN_MANY, 1, 1, "" });
		read_all(&s);
		assert_int_equal(s.hits[0], 0);
		assert_int_equal(s.hits[1], 7);
		assert_int_equal(s.hits[2], 8);
		assert_int_equal(s.hits[FEW], 100);
		engine_bpf.give_up(s.engine, 1, 2, NULL);
		read_all(&s);
		assert_int_equal(s.hits[2], 8);
		tear_down(&s);
	}
}

/* Nothing changes if the kernel refuses, and it is said once that a semaphore is left alone. */
TEST(a_refusal_changes_nothing)
{
	struct engine_site taken;
	struct engine_file theirs;
	struct engine *other;
	struct setting s;
	struct engine_spec spec = prepare(&s);

	s.sites[0].is_off = true;
	attach(&s, &spec, NULL);
	taken = s.sites[0];
	taken.is_off = false;
	taken.ref_ctr_off = 0;
	theirs = engine_file_of(&s.child.pid, &taken, 1);
	other = attached(s.ctx, &theirs, NULL);
	s.sites[0].is_off = false;
	apply(&s);
	assert_non_null(strstr(last_warning, "without raising"));
	last_warning[0] = '\0';
	s.sites[1].is_off = true;
	apply(&s);
	s.sites[1].is_off = false;
	apply(&s);
	assert_string_equal(last_warning, "");

	s.sites[2].is_off = true;
	s.files[0].path = "/nonexistent";
	assert_int_not_equal(engine_bpf.switch_sites(s.engine, &s.files[0]), 0);
	s.files[0].path = "/proc/self/exe";
	s.sites[2].is_off = false;
	child_run(&s.child, (struct order){ RUN_MANY, 1, 10, "" });
	read_all(&s);
	for (size_t i = 0; i < N_SITES; i++)
		assert_int_equal(s.hits[i], 10);
	engine_bpf.close(other);
	tear_down(&s);
}

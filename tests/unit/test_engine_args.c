// SPDX-License-Identifier: MIT
/*
 * The measuring engine where it reads arguments: filters, keys, histograms, printing. The sites are
 * this process's own, and their arguments what the two functions are called with.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "measure/filter.h"
#include "measure/operand.h"
#include "measure/value.h"
#include "measured_child.h"
#include "ocaml_heap.h"

#define SITE "	.byte 0x90, 0x3d\n	.long 0\n	ret\n"

__asm__(".pushsection .text\n"
	"args_start:\n" SITE "args_stop:\n" SITE ".popsection\n");

void args_start(uint64_t arg0, uint64_t arg1);
void args_stop(uint64_t arg0, uint64_t arg1);

enum { START, STOP, N_SITES, N_THREADS = 4, SMALL_RING = 1 << 16 };

/* Records that fit into a ring buffer of SMALL_RING bytes, each with its header of 8. */
enum { SMALL_RING_RECORDS = (SMALL_RING - 1) / (sizeof(struct hit_record) + 8) };

struct measured {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct engine_site sites[N_SITES];
	struct engine_role roles[N_SITES];
	struct engine_target target;
	struct engine_spec spec;
	struct site_args args;
	struct filter filter;
	struct engine *engine;
	struct engine_pair pair;
	struct engine_histogram histogram;
	struct engine_losses losses;
	uint64_t hits[N_SITES];
	/* what was printed */
	uint64_t n_printed, last_ns, n_out_of_order;
	char text[4096];
};

/* Both sites, with two arguments each; what is done at them is up to the test. */
static void prepare(struct measured *m)
{
	*m = (struct measured){ .ctx = ctx_or_skip(),
				.pid = getpid(),
				.sites = { { .nop_off = file_off((void *)args_start) },
					   { .nop_off = file_off((void *)args_stop) } },
				.roles = { { 0, false }, { 0, true } } };
	m->sites[STOP].first_role = STOP;
	m->target = target_of(&m->pid, m->sites, N_SITES);
	assert_int_equal(operand_parse(m->ctx, "8@%rdi 8@%rsi", &m->args), 0);
	m->target.args = &m->args;
	m->target.n_args = 1;
	m->spec = spec_of(&m->target);
	m->spec.max_args = 1;
}

static void prepare_pair(struct measured *m)
{
	prepare(m);
	m->sites[START].n_roles = m->sites[STOP].n_roles = 1;
	m->spec.roles = m->roles;
	m->spec.n_roles = N_SITES;
	m->spec.n_pairs = 1;
	m->spec.max_open = 64;
	m->spec.depth = 8;
}

static void set_filter(struct measured *m, const char *text)
{
	__u32 used;

	assert_int_equal(filter_parse(m->ctx, text, &m->filter, &used), 0);
	m->spec.filter = &m->filter;
	m->sites[START].is_filtered = true;
}

static void attach(struct measured *m)
{
	int err = engine_bpf.open(m->ctx, &m->spec, &m->engine);

	if (!err)
		err = engine_bpf.attach(m->engine, &m->target, 1);
	if (err)
		print_message("%s\n", ocp_error(m->ctx));
	assert_int_equal(err, 0);
}

static void read_all(struct measured *m)
{
	struct engine_reading reading = { .hits = m->hits,
					  .pairs = &m->pair,
					  .histograms = &m->histogram };

	assert_int_equal(engine_bpf.read(m->engine, &reading), 0);
	m->losses = reading.losses;
	free(reading.keyed);
}

static void detach(struct measured *m)
{
	assert_int_equal(engine_bpf.detach(m->engine), 0);
	read_all(m);
}

static void finish(struct measured *m)
{
	engine_bpf.close(m->engine);
	ocp_ctx_free(m->ctx);
}

/* ---- filters -------------------------------------------------------------------------------- */

static void filters_let_through_what_they_say(void **state)
{
	struct measured m;

	(void)state;
	prepare(&m);
	set_filter(&m, "arg0 > 100 && arg1 == \"GET\"");
	m.sites[STOP].is_filtered = true;
	attach(&m);
	for (int i = 0; i < 1000; i++)
		args_start(of_int(i), i % 2 ? of_string("GET") : of_string("PUT"));
	/* Odd numbers from 101 to 999. */
	args_stop(of_string("101"), of_string("GET"));
	args_stop(of_int(101), of_string("GET"));
	detach(&m);
	assert_int_equal(m.hits[START], 450);
	assert_int_equal(m.hits[STOP], 1);
	assert_int_equal(m.losses.filtered, 551);
	finish(&m);
}

/* Of nested starts that alternate, half count; the stops of the others are no orphans. */
static void a_filtered_start_takes_its_stop_along(void **state)
{
	struct measured m;

	(void)state;
	prepare_pair(&m);
	set_filter(&m, "arg0 == 1");
	attach(&m);
	for (int i = 0; i < 8; i++)
		args_start(of_int(i % 2), of_int(0));
	for (int i = 0; i < 8; i++)
		args_stop(of_int(0), of_int(0));
	args_start(of_int(0), of_int(0));
	args_stop(of_int(0), of_int(0));
	args_stop(of_int(0), of_int(0));
	detach(&m);
	assert_int_equal(m.pair.starts, 4);
	assert_int_equal(m.pair.count, 4);
	assert_int_equal(m.pair.orphan_starts, 0);
	assert_int_equal(m.pair.orphan_stops, 1);
	assert_int_equal(m.hits[START], 4);
	assert_int_equal(m.hits[STOP], 10);
	assert_int_equal(m.losses.filtered, 5);
	finish(&m);
}

static void a_filtered_start_replaces_where_depth_is_1(void **state)
{
	struct measured m;

	(void)state;
	prepare_pair(&m);
	m.spec.depth = 1;
	set_filter(&m, "arg0 == 1");
	attach(&m);
	args_start(of_int(1), of_int(0));
	args_start(of_int(0), of_int(0)); /* the one before is an orphan */
	args_start(of_int(0), of_int(0)); /* that one is not */
	args_stop(of_int(0), of_int(0));
	args_start(of_int(1), of_int(0));
	args_stop(of_int(0), of_int(0));
	detach(&m);
	assert_int_equal(m.pair.starts, 2);
	assert_int_equal(m.pair.count, 1);
	assert_int_equal(m.pair.orphan_starts, 1);
	assert_int_equal(m.pair.orphan_stops, 0);
	finish(&m);
}

static void *start_three(void *unused)
{
	(void)unused;
	args_start(of_int(1), of_int(0));
	args_start(of_int(0), of_int(0));
	args_start(of_int(1), of_int(0));
	return NULL;
}

static void a_filtered_start_is_no_orphan_of_its_thread(void **state)
{
	struct measured m;
	pthread_t thread;

	(void)state;
	prepare_pair(&m);
	set_filter(&m, "arg0 == 1");
	attach(&m);
	assert_int_equal(pthread_create(&thread, NULL, start_three, NULL), 0);
	pthread_join(thread, NULL);
	/* The kernel reports the thread's end a moment after that. */
	for (int i = 0; i < 200 && m.pair.orphan_starts < 2; i++) {
		sleep_ms(5);
		read_all(&m);
	}
	detach(&m);
	assert_int_equal(m.pair.starts, 2);
	assert_int_equal(m.pair.orphan_starts, 2);
	finish(&m);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void prepare_keys(struct measured *m, size_t max_open)
{
	prepare_pair(m);
	m->spec.key_arg = 0;
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
static void keys_match_across_threads(void **state)
{
	uint64_t keys[50], same[50];
	struct measured m;
	pthread_t thread;
	char text[16];

	(void)state;
	for (int i = 0; i < 50; i++) {
		snprintf(text, sizeof(text), "request %d", i);
		keys[i] = i % 4 == 0 ? of_string(text) : of_int(i);
		same[i] = i % 4 == 0 ? of_string(text) : of_custom("_j", (uint64_t)i);
	}
	prepare_keys(&m, 64);
	attach(&m);
	for (int i = 0; i < 50; i++)
		args_start(keys[i], of_int(0));
	read_all(&m);
	assert_int_equal(m.pair.count, 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_even, same), 0);
	pthread_join(thread, NULL);
	detach(&m);
	assert_int_equal(m.pair.starts, 50);
	assert_int_equal(m.pair.count, 25);
	assert_int_equal(m.pair.orphan_starts, 0);
	assert_int_equal(m.pair.orphan_stops, 0);
	assert_true(m.pair.min_ns > 0 && m.pair.min_ns <= m.pair.max_ns);
	assert_true(m.pair.sum_ns >= 25 * m.pair.min_ns && m.pair.sum_ns <= 25 * m.pair.max_ns);
	finish(&m);
}

static void what_has_no_partner_is_counted(void **state)
{
	struct measured m;

	(void)state;
	prepare_keys(&m, 64);
	attach(&m);
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
	detach(&m);
	assert_int_equal(m.pair.starts, 6);
	assert_int_equal(m.pair.count, 1);
	assert_int_equal(m.pair.orphan_starts, 2);
	assert_int_equal(m.pair.orphan_stops, 3);
	assert_int_equal(m.pair.not_keyed, 2);
	finish(&m);
}

static void a_full_map_of_keys_is_counted(void **state)
{
	enum { ROOM = 8, STARTS = 20 };
	struct measured m;

	(void)state;
	prepare_keys(&m, ROOM);
	attach(&m);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < STARTS; i++)
			args_start(of_int(i), of_int(0));
		for (int i = 0; i < STARTS; i++)
			args_stop(of_int(i), of_int(0));
	}
	detach(&m);
	assert_int_equal(m.pair.starts, 3 * STARTS);
	assert_int_equal(m.pair.count, 3 * ROOM);
	assert_int_equal(m.pair.map_full, 3 * (STARTS - ROOM));
	assert_int_equal(m.pair.orphan_stops, 3 * (STARTS - ROOM));
	finish(&m);
}

static void filtered_starts_leave_their_keys(void **state)
{
	struct measured m;

	(void)state;
	prepare_keys(&m, 64);
	set_filter(&m, "arg1 == 1");
	attach(&m);
	args_start(of_int(1), of_int(0)); /* a marker, */
	args_start(of_int(1), of_int(0)); /* replaced by another, */
	args_stop(of_int(1), of_int(0));  /* ended, in silence */
	args_stop(of_int(1), of_int(0));
	args_start(of_int(2), of_int(1));
	args_start(of_int(2), of_int(0)); /* replaces one that counts */
	args_start(of_int(2), of_int(1));
	args_stop(of_int(2), of_int(0));
	args_start(of_double(1), of_int(0));
	detach(&m);
	assert_int_equal(m.pair.starts, 2);
	assert_int_equal(m.pair.count, 1);
	assert_int_equal(m.pair.orphan_starts, 1);
	assert_int_equal(m.pair.orphan_stops, 1);
	assert_int_equal(m.pair.not_keyed, 0);
	finish(&m);
}

/* Processes that end give their room back, one after another, and what they left open is counted.
 */
static void processes_take_their_keys_along(void **state)
{
	enum { ROOM = 8, PROCESSES = 5 };
	struct measured m;
	int go[2], status;
	char c;

	(void)state;
	prepare_keys(&m, ROOM);
	m.spec.children = true;
	attach(&m);
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
		read_all(&m);
		assert_int_equal(m.pair.count, i + 1);
		assert_int_equal(m.pair.orphan_starts, (i + 1) * (ROOM - 2));
	}
	args_stop(of_int(100), of_int(0));
	detach(&m);
	assert_int_equal(m.pair.count, PROCESSES + 1);
	assert_int_equal(m.pair.orphan_stops, PROCESSES);
	assert_int_equal(m.pair.map_full, 0);
	assert_int_equal(m.pair.starts, m.pair.count + m.pair.orphan_starts);
	finish(&m);
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

/* Whoever wins, each start and each stop is in exactly one of the counters. */
static void one_key_in_many_threads_is_accounted_for(void **state)
{
	const uint64_t all = (uint64_t)N_THREADS * BUSY_ROUNDS;
	pthread_t threads[N_THREADS];
	struct measured m;
	uint64_t open;

	(void)state;
	prepare_keys(&m, 64);
	attach(&m);
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, start_and_stop, NULL), 0);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	read_all(&m);
	open = m.pair.starts - m.pair.count - m.pair.orphan_starts;
	assert_true(open <= 2);
	args_stop(of_int(0), of_int(0));
	args_stop(of_int(1), of_int(0));
	detach(&m);
	assert_int_equal(m.pair.starts, all);
	assert_int_equal(m.pair.count + m.pair.orphan_starts, all);
	assert_int_equal(m.pair.count + m.pair.orphan_stops, all + 2);
	assert_int_equal(m.hits[START], all);
	assert_true(m.pair.max_ns < 60ULL * 1000000000);
	finish(&m);
}

/* ---- histograms ----------------------------------------------------------------------------- */

static void prepare_histogram(struct measured *m)
{
	prepare(m);
	m->spec.n_histograms = 1;
	m->spec.hist_arg = 1;
	m->sites[START].has_histogram = true;
	attach(m);
}

static void histograms_are_exact(void **state)
{
	static const int64_t numbers[] = { 0,  1,   -1,	  2,	 7,	 -7,	  8,	       15,
					   16, 100, -100, 12345, -99999, 1 << 30, -(1LL << 40) };
	enum { N = sizeof(numbers) / sizeof(numbers[0]) };
	int64_t sum = 0;
	struct measured m;

	(void)state;
	prepare_histogram(&m);
	for (int i = 0; i < N; i++) {
		for (int j = 0; j <= i; j++)
			args_start(of_int(0), of_int(numbers[i]));
		sum += (i + 1) * numbers[i];
	}
	args_start(of_int(0), of_custom("_j", 5));
	args_start(of_int(0), of_double(5));
	args_start(of_int(0), of_nowhere());
	args_stop(of_int(0), of_int(5));
	detach(&m);
	assert_int_equal(m.histogram.count, N * (N + 1) / 2 + 1);
	assert_int_equal(m.histogram.not_int, 2);
	assert_true(m.histogram.sum == sum + 5);
	assert_int_equal(m.histogram.min, -(1LL << 40));
	assert_int_equal(m.histogram.max, 1 << 30);
	for (int i = 0; i < N; i++) {
		uint64_t size = (uint64_t)(numbers[i] < 0 ? -numbers[i] : numbers[i]);
		const uint64_t *buckets =
			numbers[i] < 0 ? m.histogram.below_0 : m.histogram.buckets;

		assert_int_equal(buckets[measure_bucket_of(size)], i + 1);
	}
	assert_int_equal(m.histogram.buckets[5], 1);
	finish(&m);
}

/* Sums go beyond 64 bits and come back. */
static void histograms_take_the_largest_numbers(void **state)
{
	const uint64_t most = (uint64_t)INT64_MAX, least = (uint64_t)INT64_MIN;
	struct measured m;

	(void)state;
	prepare_histogram(&m);
	for (int i = 0; i < 5; i++) {
		args_start(of_int(0), of_custom("_j", most));
		args_start(of_int(0), of_custom("_n", least));
	}
	args_start(of_int(0), of_custom("_j", most));
	args_start(of_int(0), of_custom("_j", most));
	read_all(&m);
	assert_true(m.histogram.sum == (__int128)7 * INT64_MAX + (__int128)5 * INT64_MIN);
	for (int i = 0; i < 9; i++)
		args_start(of_int(0), of_custom("_j", least));
	detach(&m);
	assert_true(m.histogram.sum == (__int128)7 * INT64_MAX + (__int128)14 * INT64_MIN);
	assert_int_equal(m.histogram.count, 21);
	assert_true(m.histogram.min == INT64_MIN);
	assert_true(m.histogram.max == INT64_MAX);
	assert_int_equal(m.histogram.below_0[measure_bucket_of(1ULL << 63)], 14);
	finish(&m);
}

static void signed_buckets_are_in_order(void **state)
{
	(void)state;
	assert_true(ocp_signed_bucket_start(0) == INT64_MIN);
	assert_true(ocp_signed_bucket_start(OCP_SIGNED_BUCKETS) == INT64_MAX);
	for (size_t i = 0; i < OCP_SIGNED_BUCKETS; i++)
		assert_true(ocp_signed_bucket_start(i) <= ocp_signed_bucket_start(i + 1));
	for (int64_t number = 1; number < 100000; number = number * 9 / 8 + 1) {
		size_t above = OCP_BUCKETS + measure_bucket_of((uint64_t)number),
		       below = OCP_BUCKETS - 1 - measure_bucket_of((uint64_t)number);

		assert_true(ocp_signed_bucket_start(above) <= number);
		assert_true(ocp_signed_bucket_start(above + 1) > number);
		assert_true(ocp_signed_bucket_start(below) <= -number);
		assert_true(ocp_signed_bucket_start(below + 1) > -number);
	}
	assert_int_equal(ocp_signed_bucket_start(OCP_BUCKETS), 0);
	assert_int_equal(ocp_signed_bucket_start(OCP_BUCKETS - 2), -1);
}

/* ---- printing ------------------------------------------------------------------------------- */

static void prepare_printing(struct measured *m, uint64_t limit, size_t bytes)
{
	prepare(m);
	m->spec.prints = true;
	m->spec.print_limit = limit;
	m->spec.print_bytes = bytes;
	m->sites[START].is_printed = m->sites[STOP].is_printed = true;
}

static void take(void *data, const struct hit_record *record)
{
	struct measured *m = data;
	FILE *out = fmemopen(m->text, sizeof(m->text), "w");

	assert_non_null(out);
	fprintf(out, "%s", record->site == 0 ? "start" : "stop");
	value_write_args(out, record);
	fclose(out);
	m->n_out_of_order += record->ts_ns < m->last_ns;
	m->last_ns = record->ts_ns;
	m->n_printed++;
}

static void take_all(struct measured *m)
{
	assert_int_equal(engine_bpf.print(m->engine, true, take, m), 0);
}

static void hits_are_printed(void **state)
{
	struct measured m;

	(void)state;
	prepare_printing(&m, 0, SMALL_RING);
	attach(&m);
	args_start(of_int(-5), of_string("a\033[2Jb\377"));
	take_all(&m);
	assert_string_equal(m.text, "start -5 \"a\\027[2Jb\\255\"");
	args_stop(of_double(0.5), of_list(3));
	take_all(&m);
	assert_string_equal(m.text, "stop 0.5 [1; 2; 3]");
	assert_int_equal(m.n_printed, 2);
	detach(&m);
	finish(&m);
}

static void the_filter_chooses_what_is_printed(void **state)
{
	struct measured m;

	(void)state;
	prepare_printing(&m, 0, SMALL_RING);
	set_filter(&m, "arg1 ^= \"/api\"");
	attach(&m);
	args_start(of_int(1), of_string("/ap"));
	args_start(of_int(2), of_string("/api/x"));
	detach(&m);
	take_all(&m);
	assert_int_equal(m.n_printed, 1);
	assert_string_equal(m.text, "start 2 \"/api/x\"");
	assert_int_equal(m.losses.filtered, 1);
	finish(&m);
}

/* Nobody reads: what does not fit is counted, and then there is room again. */
static void a_full_buffer_is_counted(void **state)
{
	struct measured m;

	(void)state;
	prepare_printing(&m, 0, SMALL_RING);
	attach(&m);
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < 100; i++)
			args_start(of_int(i), of_int(0));
		take_all(&m);
		read_all(&m);
		assert_int_equal(m.n_printed, round * SMALL_RING_RECORDS);
		assert_int_equal(m.n_printed + m.losses.prints_dropped, round * 100);
	}
	detach(&m);
	assert_int_equal(m.hits[START], 300);
	finish(&m);
}

/* The second run fits into a buffer of LARGE_RING bytes. */
enum { PRINT_ROUNDS = 20000, FEW_ROUNDS = 2000, LARGE_RING = 64 << 20 };

static void *hit_both(void *arg)
{
	const int rounds = *(const int *)arg;

	for (int i = 0; i < rounds; i++) {
		args_start(of_int(i), of_int(0));
		args_stop(of_int(i), of_int(0));
	}
	return NULL;
}

static void run_threads(struct measured *m, int rounds)
{
	pthread_t threads[N_THREADS];

	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hit_both, &rounds), 0);
	for (int i = 0; i < N_THREADS; i++) {
		while (pthread_tryjoin_np(threads[i], NULL)) {
			assert_int_equal(engine_bpf.print(m->engine, false, take, m), 0);
			sleep_ms(1);
		}
	}
}

/* Printed, dropped or above the limit: every hit is one of these. */
static void every_hit_is_accounted_for(void **state)
{
	const uint64_t all = 2ULL * N_THREADS * PRINT_ROUNDS;
	struct measured m;

	(void)state;
	for (int limited = 0; limited < 2; limited++) {
		prepare_printing(&m, limited ? 10 : 0, SMALL_RING);
		attach(&m);
		run_threads(&m, PRINT_ROUNDS);
		detach(&m);
		take_all(&m);
		assert_int_equal(m.hits[START] + m.hits[STOP], all);
		assert_int_equal(m.n_printed + m.losses.prints_dropped + m.losses.prints_limited,
				 all);
		assert_true(m.n_printed > 0);
		if (limited)
			assert_true(m.losses.prints_limited > all - 1000);
		else
			assert_int_equal(m.losses.prints_limited, 0);
		finish(&m);
	}
}

/* With room for all, and with what is recent held back, in the order of time. */
static void hits_are_printed_in_order(void **state)
{
	struct measured m;

	(void)state;
	prepare_printing(&m, 0, LARGE_RING);
	attach(&m);
	run_threads(&m, FEW_ROUNDS);
	detach(&m);
	take_all(&m);
	assert_int_equal(m.n_printed, 2 * N_THREADS * FEW_ROUNDS);
	assert_int_equal(m.losses.prints_dropped, 0);
	assert_int_equal(m.n_out_of_order, 0);
	finish(&m);
}

static void the_limit_is_a_seconds(void **state)
{
	struct measured m;

	(void)state;
	prepare_printing(&m, 10, SMALL_RING);
	attach(&m);
	for (int i = 0; i < 12; i++) {
		for (int j = 0; j < 100; j++)
			args_start(of_int(j), of_int(0));
		take_all(&m);
		sleep_ms(100);
	}
	detach(&m);
	/* At least one second has begun in between, at most three were touched. */
	assert_true(m.n_printed == 20 || m.n_printed == 30);
	assert_int_equal(m.n_printed + m.losses.prints_limited, 1200);
	finish(&m);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void perf_events_cannot(void **state)
{
	static const struct engine_bpf_options perf = { .perf_events = true };
	struct measured m;

	(void)state;
	prepare(&m);
	set_filter(&m, "arg0 == 1");
	assert_int_equal(engine_bpf_open(m.ctx, &m.spec, &perf, &m.engine), -EOPNOTSUPP);
	assert_non_null(strstr(ocp_error(m.ctx), "arguments need uprobe_multi links"));
	ocp_ctx_free(m.ctx);
}

static void too_much_is_refused(void **state)
{
	struct measured m;

	(void)state;
	prepare(&m);
	m.spec.n_histograms = MEASURE_MAX_HISTOGRAMS + 1;
	assert_int_equal(engine_bpf.open(m.ctx, &m.spec, &m.engine), -E2BIG);
	m.spec.n_histograms = 1;
	m.spec.max_args = 0;
	assert_int_equal(engine_bpf.open(m.ctx, &m.spec, &m.engine), 0);
	assert_int_equal(engine_bpf.attach(m.engine, &m.target, 1), -E2BIG);
	finish(&m);
}

/* What is asked for decides what the verifier sees of the program. */
static void every_combination_loads(void **state)
{
	struct measured m;

	(void)state;
	for (unsigned int bits = 0; bits < 64; bits++) {
		bits & 1 ? prepare_pair(&m) : prepare(&m);
		if (bits & 2)
			set_filter(&m, "arg0 == 1");
		m.spec.n_histograms = bits >> 2 & 1;
		m.spec.prints = bits & 8;
		m.spec.print_bytes = SMALL_RING;
		m.spec.key_arg = bits & 1 && bits & 16 ? 15 : ENGINE_BY_THREAD;
		m.spec.split = bits & 32 ? ENGINE_BY_THREAD_ID : ENGINE_BY_SITE;
		m.spec.max_keys = 16;
		assert_int_equal(engine_bpf.open(m.ctx, &m.spec, &m.engine), 0);
		finish(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filters_let_through_what_they_say),
		cmocka_unit_test(a_filtered_start_takes_its_stop_along),
		cmocka_unit_test(a_filtered_start_replaces_where_depth_is_1),
		cmocka_unit_test(a_filtered_start_is_no_orphan_of_its_thread),
		cmocka_unit_test(keys_match_across_threads),
		cmocka_unit_test(what_has_no_partner_is_counted),
		cmocka_unit_test(a_full_map_of_keys_is_counted),
		cmocka_unit_test(filtered_starts_leave_their_keys),
		cmocka_unit_test(processes_take_their_keys_along),
		cmocka_unit_test(one_key_in_many_threads_is_accounted_for),
		cmocka_unit_test(histograms_are_exact),
		cmocka_unit_test(histograms_take_the_largest_numbers),
		cmocka_unit_test(signed_buckets_are_in_order),
		cmocka_unit_test(hits_are_printed),
		cmocka_unit_test(the_filter_chooses_what_is_printed),
		cmocka_unit_test(a_full_buffer_is_counted),
		cmocka_unit_test(every_hit_is_accounted_for),
		cmocka_unit_test(hits_are_printed_in_order),
		cmocka_unit_test(the_limit_is_a_seconds),
		cmocka_unit_test(perf_events_cannot),
		cmocka_unit_test(too_much_is_refused),
		cmocka_unit_test(every_combination_loads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

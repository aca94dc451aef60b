// SPDX-License-Identifier: MIT
/*
 * The measuring engine where it takes the arguments' values along: histograms and printing.
 */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "exact_sum.h"
#include "measure/args/operand.h"
#include "measure/args/value.h"
#include "measure/float_sum.h"
#include "measured_args.h"
#include "ocaml_heap.h"

ALONE;

/* Records that fit into a ring buffer of SMALL_RING bytes, each with its header of 8. */
enum { SMALL_RING_RECORDS = (SMALL_RING - 1) / (sizeof(struct hit_record) + 8) };

/* ---- histograms ----------------------------------------------------------------------------- */

static void prepare_histogram(struct measured *m)
{
	measured_prepare(m);
	m->spec.n_histograms = 1;
	m->spec.hist_arg = 1;
	m->sites[START].has_histogram = true;
	measured_attach(m);
}

TEST(histograms_are_exact)
{
	static const int64_t numbers[] = { 0,  1,   -1,	  2,	 7,	 -7,	  8,	       15,
					   16, 100, -100, 12345, -99999, 1 << 30, -(1LL << 40) };
	enum { N = sizeof(numbers) / sizeof(numbers[0]) };
	int64_t sum = 0;
	struct measured m;

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
	measured_detach(&m);
	assert_int_equal(m.histogram.count, N * (N + 1) / 2 + 1);
	assert_int_equal(m.histogram.not_number, 1);
	assert_int_equal(m.floats.count, 1);
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
	measured_finish(&m);
}

/* Sums go beyond 64 bits and come back. */
TEST(histograms_take_the_largest_numbers)
{
	const uint64_t most = (uint64_t)INT64_MAX, least = (uint64_t)INT64_MIN;
	struct measured m;

	prepare_histogram(&m);
	for (int i = 0; i < 5; i++) {
		args_start(of_int(0), of_custom("_j", most));
		args_start(of_int(0), of_custom("_n", least));
	}
	args_start(of_int(0), of_custom("_j", most));
	args_start(of_int(0), of_custom("_j", most));
	measured_read(&m);
	assert_true(m.histogram.sum == (__int128)7 * INT64_MAX + (__int128)5 * INT64_MIN);
	for (int i = 0; i < 9; i++)
		args_start(of_int(0), of_custom("_j", least));
	measured_detach(&m);
	assert_true(m.histogram.sum == (__int128)7 * INT64_MAX + (__int128)14 * INT64_MIN);
	assert_int_equal(m.histogram.count, 21);
	assert_true(m.histogram.min == INT64_MIN);
	assert_true(m.histogram.max == INT64_MAX);
	assert_int_equal(m.histogram.below_0[measure_bucket_of(1ULL << 63)], 14);
	measured_finish(&m);
}

/* Of all that a site can have it is the one that was asked for. */
TEST(histograms_are_of_their_argument)
{
	enum { OPERAND_BYTES = 7 };
	static const unsigned int numbers[] = { 2, 7, ARGS_MAX - 1 };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		char operands[ARGS_MAX * OPERAND_BYTES + 1];
		struct measured m;

		for (unsigned int arg = 0; arg < ARGS_MAX; arg++)
			snprintf(operands + (size_t)arg * OPERAND_BYTES, OPERAND_BYTES + 1,
				 "8@%%r%ci ", arg == numbers[i] ? 's' : 'd');
		operands[sizeof(operands) - 2] = '\0';
		measured_prepare(&m);
		assert_int_equal(operand_parse(m.ctx, operands, &m.args), 0);
		m.spec.n_histograms = 1;
		m.spec.hist_arg = numbers[i];
		m.sites[START].has_histogram = true;
		measured_attach(&m);
		args_start(of_int(5), of_int(77));
		measured_detach(&m);
		assert_int_equal(m.histogram.count, 1);
		assert_int_equal(m.histogram.max, 77);
		measured_finish(&m);
	}
}

static double sum_of_floats(const struct measured *m)
{
	const struct float_sum sum = float_sum_of(m->floats.sums);

	return float_sum_value(&sum);
}

static double float_of_ordered(uint64_t ordered)
{
	return float_of_bits(measure_float_of_ordered(ordered));
}

/* Ints, bools and floats at one place: each has its own histogram. */
TEST(floats_have_a_histogram_of_their_own)
{
	static const double floats[] = { 0.1,	  -0.1,	  0.0,	   -0.0,     DBL_TRUE_MIN,
					 DBL_MIN, -1e300, 123.456, -0x1p-32, 0x1p64,
					 1e300,	  -2.5,	  -1e302 };
	enum { N = sizeof(floats) / sizeof(floats[0]) };
	struct exact_sum sum = { .n = 0 };
	struct measured m;

	prepare_histogram(&m);
	measured_read(&m);
	assert_int_equal(m.floats.count, 0);
	for (int i = 0; i < N; i++) {
		for (int j = 0; j <= i; j++) {
			args_start(of_int(0), of_double(floats[i]));
			exact_sum_add(&sum, floats[i]);
		}
		args_start(of_int(0), of_int(i & 1));
	}
	args_start(of_int(0), of_double(HUGE_VAL));
	args_start(of_int(0), of_double(HUGE_VAL));
	args_start(of_int(0), of_double(-HUGE_VAL));
	args_start(of_int(0), of_double(NAN));
	args_start(of_int(0), of_double(-NAN));
	args_start(of_int(0), of_double(NAN));
	args_start(of_int(0), of_string("1.5"));
	args_start(of_int(0), of_header_only(DOUBLE, 1));
	measured_detach(&m);
	assert_int_equal(m.histogram.count, N);
	assert_true(m.histogram.sum == N / 2);
	assert_int_equal(m.histogram.not_number, 2);
	assert_int_equal(m.floats.count, N * (N + 1) / 2);
	assert_int_equal(m.floats.inf, 2);
	assert_int_equal(m.floats.minus_inf, 1);
	assert_int_equal(m.floats.nan, 3);
	assert_true(float_of_ordered(m.floats.max) == 1e300);
	assert_true(float_of_ordered(~m.floats.min_not) == -1e302);
	assert_true(sum_of_floats(&m) == exact_sum_value(&sum));
	/* Those around 0, and the last ones, have several of the numbers. */
	assert_int_equal(m.floats.buckets[OCP_FLOAT_ZERO_BUCKET], 3 + 4);
	assert_int_equal(m.floats.buckets[OCP_FLOAT_ZERO_BUCKET + 1], 5 + 6);
	assert_int_equal(m.floats.buckets[0], 7 + 13);
	assert_int_equal(m.floats.buckets[OCP_FLOAT_BUCKETS - 1], 10 + 11);
	for (int i = 0; i < N; i++)
		if (fabs(floats[i]) > DBL_MIN && fabs(floats[i]) < 0x1p64)
			assert_int_equal(
				m.floats.buckets[measure_float_bucket_of(bits_of_float(floats[i]))],
				i + 1);
	measured_finish(&m);
}

/* -0.0 is below 0.0. */
TEST(extremes_of_floats)
{
	static const double pairs[][2] = { { -0.0, 0.0 },
					   { 0.0, DBL_TRUE_MIN },
					   { -DBL_TRUE_MIN, -0.0 },
					   { 1.5, 1.5 },
					   { -DBL_MAX, -1 } };
	struct measured m;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		prepare_histogram(&m);
		args_start(of_int(0), of_double(pairs[i][1]));
		args_start(of_int(0), of_double(pairs[i][0]));
		measured_detach(&m);
		assert_int_equal(measure_float_of_ordered(~m.floats.min_not),
				 bits_of_float(pairs[i][0]));
		assert_int_equal(measure_float_of_ordered(m.floats.max),
				 bits_of_float(pairs[i][1]));
		measured_finish(&m);
	}
}

/* A float that is not boxed, in memory. */
TEST(unboxed_floats_have_a_histogram)
{
	const double x = -1234.5625;
	struct measured m;

	measured_prepare(&m);
	assert_int_equal(operand_parse(m.ctx, "8@%rdi 8f@(%rsi)", &m.args), 0);
	m.spec.n_histograms = 1;
	m.spec.hist_arg = 1;
	m.sites[START].has_histogram = true;
	measured_attach(&m);
	args_start(of_int(0), (uint64_t)(uintptr_t)&x);
	measured_detach(&m);
	assert_int_equal(m.histogram.count + m.histogram.not_number, 0);
	assert_int_equal(m.floats.count, 1);
	assert_true(sum_of_floats(&m) == x);
	measured_finish(&m);
}

enum { FLOATS_A_THREAD = 20000 };

struct float_thread {
	uint64_t seed, value;
	double numbers[FLOATS_A_THREAD];
};

static void *hit_with_floats(void *arg)
{
	struct float_thread *thread = arg;

	for (int i = 0; i < FLOATS_A_THREAD; i++) {
		const uint64_t bits = random_bits(&thread->seed);
		const double x = ldexp((double)(bits >> 11) * 0x1p-53, (int)(bits % 90) - 40);

		thread->numbers[i] = bits & 1024 ? -x : x;
		memcpy(words_of(thread->value), &thread->numbers[i], sizeof(x));
		args_start(of_int(0), thread->value);
	}
	return NULL;
}

/* Threads that hit at one moment, on all processors, lose nothing. */
TEST(sums_of_floats_are_exact)
{
	static struct float_thread threads[N_THREADS];
	pthread_t ids[N_THREADS];
	uint64_t buckets[MEASURE_FLOAT_BUCKETS] = { 0 };
	struct exact_sum sum = { .n = 0 };
	double min = HUGE_VAL, max = -HUGE_VAL;
	struct measured m;

	prepare_histogram(&m);
	for (int i = 0; i < N_THREADS; i++) {
		threads[i].seed = 41 + (uint64_t)i;
		threads[i].value = of_double(0);
		assert_int_equal(pthread_create(&ids[i], NULL, hit_with_floats, &threads[i]), 0);
	}
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_join(ids[i], NULL), 0);
	measured_detach(&m);
	for (int i = 0; i < N_THREADS * FLOATS_A_THREAD; i++) {
		const double x = threads[i / FLOATS_A_THREAD].numbers[i % FLOATS_A_THREAD];

		exact_sum_add(&sum, x);
		buckets[measure_float_bucket_of(bits_of_float(x))]++;
		min = x < min ? x : min;
		max = x > max ? x : max;
	}
	assert_int_equal(m.floats.count, N_THREADS * FLOATS_A_THREAD);
	assert_true(sum_of_floats(&m) == exact_sum_value(&sum));
	assert_true(float_of_ordered(~m.floats.min_not) == min);
	assert_true(float_of_ordered(m.floats.max) == max);
	assert_memory_equal(m.floats.buckets, buckets, sizeof(buckets));
	measured_finish(&m);
}

TEST(signed_buckets_are_in_order)
{
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
	measured_prepare(m);
	m->spec.request.printed.n = true;
	m->spec.request.print_limit = limit;
	m->spec.print_bytes = bytes;
	m->sites[START].is_printed = m->sites[STOP].is_printed = true;
}

static void take(void *data, const struct hit_record *record, const struct stored_stack *stack)
{
	struct measured *m = data;
	FILE *out = fmemopen(m->text, sizeof(m->text), "w");

	assert_null(stack);
	assert_non_null(out);
	fprintf(out, "%s", record->site == 0 ? "start" : "stop");
	value_write_args(out, record, "");
	fclose(out);
	m->n_out_of_order += record->ts_ns < m->last_ns;
	m->last_ns = record->ts_ns;
	m->n_printed++;
}

static void take_all(struct measured *m)
{
	assert_int_equal(engine_bpf.print(m->engine, true, take, m), 0);
}

TEST(hits_are_printed)
{
	struct measured m;

	prepare_printing(&m, 0, SMALL_RING);
	measured_attach(&m);
	args_start(of_int(-5), of_string("a\033[2Jb\377"));
	take_all(&m);
	assert_string_equal(m.text, "start -5 \"a\\027[2Jb\\255\"");
	args_stop(of_double(0.5), of_list(3));
	take_all(&m);
	assert_string_equal(m.text, "stop 0.5 [1; 2; 3]");
	assert_int_equal(m.n_printed, 2);
	measured_detach(&m);
	measured_finish(&m);
}

TEST(the_filter_chooses_what_is_printed)
{
	struct measured m;

	prepare_printing(&m, 0, SMALL_RING);
	measured_set_filter(&m, "arg1 ^= \"/api\"");
	measured_attach(&m);
	args_start(of_int(1), of_string("/ap"));
	args_start(of_int(2), of_string("/api/x"));
	measured_detach(&m);
	take_all(&m);
	assert_int_equal(m.n_printed, 1);
	assert_string_equal(m.text, "start 2 \"/api/x\"");
	assert_int_equal(m.losses.filtered, 1);
	measured_finish(&m);
}

/* Nobody reads: what does not fit is counted, and then there is room again. */
TEST(a_full_buffer_is_counted)
{
	struct measured m;

	prepare_printing(&m, 0, SMALL_RING);
	measured_attach(&m);
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < 100; i++)
			args_start(of_int(i), of_int(0));
		take_all(&m);
		measured_read(&m);
		assert_int_equal(m.n_printed, round * SMALL_RING_RECORDS);
		assert_int_equal(m.n_printed + m.losses.prints_dropped, round * 100);
	}
	measured_detach(&m);
	assert_int_equal(m.hits[START], 300);
	measured_finish(&m);
}

/* The second run fits into half of LARGE_RING bytes: room never gets short. */
enum {
	PRINT_ROUNDS = 20000,
	LARGE_RING = 64 << 20,
	FEW_ROUNDS = LARGE_RING / 2 / (2 * N_THREADS * (sizeof(struct hit_record) + 8)),
};

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

/* The time that limits are about, in seconds. */
static int64_t second_now(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000000;
}

/* Printed, dropped or above the limit: every hit is one of these. */
TEST(every_hit_is_accounted_for)
{
	enum { LIMIT = 10 };
	const uint64_t all = 2ULL * N_THREADS * PRINT_ROUNDS;
	struct measured m;

	for (int limited = 0; limited < 2; limited++) {
		int64_t seconds;

		prepare_printing(&m, limited ? LIMIT : 0, SMALL_RING);
		measured_attach(&m);
		seconds = 1 - second_now();
		run_threads(&m, PRINT_ROUNDS);
		seconds += second_now();
		measured_detach(&m);
		take_all(&m);
		assert_int_equal(m.hits[START] + m.hits[STOP], all);
		assert_int_equal(m.n_printed + m.losses.prints_dropped + m.losses.prints_limited,
				 all);
		assert_true(m.n_printed > 0);
		if (limited)
			assert_true(m.losses.prints_limited >= all - (uint64_t)seconds * LIMIT);
		else
			assert_int_equal(m.losses.prints_limited, 0);
		measured_finish(&m);
	}
}

/* With room for all, and with what is recent held back, in the order of time. */
TEST(hits_are_printed_in_order)
{
	struct measured m;

	prepare_printing(&m, 0, LARGE_RING);
	measured_attach(&m);
	run_threads(&m, FEW_ROUNDS);
	measured_detach(&m);
	take_all(&m);
	assert_int_equal(m.n_printed, 2 * N_THREADS * FEW_ROUNDS);
	assert_int_equal(m.losses.prints_dropped, 0);
	assert_int_equal(m.n_out_of_order, 0);
	measured_finish(&m);
}

/* Of what falls into one second the first so many are printed. */
TEST(the_limit_is_a_seconds)
{
	enum { LIMIT = 10, HITS = 100, WHOLE_SECONDS = 2 };
	int64_t touched = -1; /* the last second in which there were hits */
	uint64_t n_hits = 0;
	int n_fresh = 0;
	struct measured m;

	prepare_printing(&m, LIMIT, SMALL_RING);
	measured_attach(&m);
	while (n_fresh < WHOLE_SECONDS) {
		const uint64_t before = m.n_printed;
		const int64_t first = second_now();
		int64_t last;

		for (int j = 0; j < HITS; j++)
			args_start(of_int(j), of_int(0));
		n_hits += HITS;
		last = second_now();
		take_all(&m);
		if (first == last && first > touched) {
			assert_int_equal(m.n_printed - before, LIMIT);
			n_fresh++;
			args_start(of_int(HITS), of_int(0));
			n_hits++;
			last = second_now();
			take_all(&m);
			if (first == last)
				assert_int_equal(m.n_printed - before, LIMIT);
		}
		assert_true(m.n_printed - before <= LIMIT * (uint64_t)(last - first + 1));
		touched = last;
		sleep_ms(100);
	}
	measured_detach(&m);
	assert_int_equal(m.n_printed + m.losses.prints_limited, n_hits);
	measured_finish(&m);
}

// SPDX-License-Identifier: MIT
/* What a sample makes of an engine's counters. */
#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "measure/pin_meta.h"
#include "unit.h"

#define TEXT_OF(number) AS_TEXT(number)
#define AS_TEXT(number) #number

#define META(split)                                                                                \
	"ocaml-probes-kept 2 " TEXT_OF(MEASURE_VERSION) "\nstart 1\nsplit " split                  \
							"\ncost 1.0 1.0\npid 1\npair 0 =a =b\n"

/* Two probes and a pair of them, by thread. */
static const char by_thread[] =
	META("2") "probe 1 =a\nprobe 1 =b\nfile =/x\nsite 0 0 1 0 0 0 = =\nsite 1 0 2 0 0 0 = =\n";

/* Six probes that are not in the order of their names, with a site or two, by site. */
static const char by_site[] = META("1") "probe 1 =d\nprobe 1 =b\nprobe 1 =e\nprobe 1 =a\n"
					"probe 1 =c\nprobe 1 =f\nfile =/x\n"
					"site 0 0 10 0 0 0 = =\nsite 1 0 20 0 0 0 = =\n"
					"site 2 0 30 0 0 0 = =\nsite 3 0 40 0 0 0 = =\n"
					"site 4 0 50 0 0 0 = =\nsite 1 0 8 0 0 0 = =\n";

/* ---- an engine ------------------------------------------------------------------------------ */

enum { MAX_KEYED = 4 };

/* What it reads: the hits of site I are I + 1. */
static struct ocp_pair pair;
static uint64_t buckets[OCP_BUCKETS];
static struct engine_keyed keyed[MAX_KEYED];
static size_t n_sites, n_keyed;

static int n_allocations; /* the one that fails is the last of so many; 0: none */

static bool is_refused(void)
{
	return n_allocations > 0 && --n_allocations == 0;
}

WRAP(void *, calloc, (size_t n, size_t size), (n, size))
{
	return is_refused() ? NULL : __real_calloc(n, size);
}

WRAP(void *, malloc, (size_t size), (size))
{
	return is_refused() ? NULL : __real_malloc(size);
}

static int read_counters(struct engine *engine, struct engine_reading *reading)
{
	(void)engine;
	reading->pairs[0] = pair;
	memcpy(reading->pair_buckets[0], buckets, sizeof(buckets));
	for (size_t i = 0; i < n_sites; i++)
		reading->hits[i] = i + 1;
	reading->keyed = __real_calloc(n_keyed + 1, sizeof(*reading->keyed));
	assert_non_null(reading->keyed);
	memcpy(reading->keyed, keyed, sizeof(keyed[0]) * n_keyed);
	reading->n_keyed = n_keyed;
	return 0;
}

static void close_engine(struct engine *engine)
{
	(void)engine;
}

static const struct engine_ops ops = { .read = read_counters, .close = close_engine };

static struct ocp_meter *open_meter(struct ocp_ctx *ctx, const char *meta)
{
	struct ocp_meter *meter = ocp_meter_new(ctx);
	char *text = strdup(meta);

	assert_non_null(meter);
	assert_int_equal(site_table_keep(&meter->table, text), 0);
	assert_int_equal(pin_meta_parse(meter, "meta", text), 0);
	meter->ops = &ops;
	meter->engine = (struct engine *)meter; /* not looked into */
	memset(&pair, 0, sizeof(pair));
	memset(buckets, 0, sizeof(buckets));
	n_sites = meter->table.n_sites;
	n_keyed = 0;
	return meter;
}

static struct ocp_sample *read_sample(struct ocp_meter *meter)
{
	struct ocp_sample *sample;

	assert_int_equal(ocp_meter_read(meter, &sample), 0);
	return sample;
}

static void set_keyed(size_t i, uint32_t tid, uint64_t hits)
{
	keyed[i] = (struct engine_keyed){ .id = tid, .tgid = tid, .hits = hits };
	n_keyed = i + 1;
}

/* ---- samples -------------------------------------------------------------------------------- */

/* A start that went anywhere is not open, whatever became of it. */
TEST(starts_that_are_open)
{
	static const struct ocp_pair all = {
		.starts = 100,
		.count = 1,
		.orphan_starts = 2,
		.map_full = 8,
		.not_keyed = 16,
		.orphan_stops = 32,
	};
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = open_meter(ctx, by_thread);
	struct ocp_sample *sample;

	pair = all;
	assert_int_equal(ocp_meter_read(meter, &sample), 0);
	assert_int_equal(ocp_sample_pair_count(sample), 1);
	assert_int_equal(ocp_sample_pair(sample, 0)->open, 100 - 1 - 2 - 8 - 16);
	ocp_sample_free(sample);
	/* The counters are read one after another. */
	pair.starts = 20;
	assert_int_equal(ocp_meter_read(meter, &sample), 0);
	assert_int_equal(ocp_sample_pair(sample, 0)->open, 0);
	ocp_sample_free(sample);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

TEST(hits_of_no_probe)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = open_meter(ctx, by_thread);
	struct ocp_sample *sample;

	set_keyed(0, 7, 3);
	keyed[0].probe_index = 1;
	assert_int_equal(ocp_meter_read(meter, &sample), 0);
	ocp_sample_free(sample);
	keyed[0].probe_index = 2;
	assert_int_equal(ocp_meter_read(meter, &sample), -EBADMSG);
	assert_null(sample);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

/* By name, and those of one probe in the order of their numbers. */
TEST(sites_are_in_the_order_of_their_probes)
{
	static const struct {
		const char *probe;
		uint64_t va, hits;
	} expected[] = { { "a", 0x40, 4 }, { "b", 0x20, 2 }, { "b", 0x8, 6 },
			 { "c", 0x50, 5 }, { "d", 0x10, 1 }, { "e", 0x30, 3 } };
	enum { N = sizeof(expected) / sizeof(expected[0]) };
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = open_meter(ctx, by_site);
	struct ocp_sample *sample = read_sample(meter);

	assert_int_equal(ocp_sample_hits_count(sample), N);
	for (size_t i = 0; i < N; i++) {
		const struct ocp_hits *hits = ocp_sample_hits(sample, i);

		assert_string_equal(hits->probe, expected[i].probe);
		assert_int_equal(hits->va, expected[i].va);
		assert_int_equal(hits->hits, expected[i].hits);
	}
	assert_int_equal(ocp_sample_probe_count(sample), 6);
	assert_string_equal(ocp_sample_probe(sample, 1)->probe, "b");
	assert_int_equal(ocp_sample_probe(sample, 1)->hits, 8);
	ocp_sample_free(sample);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

/* ---- differences ---------------------------------------------------------------------------- */

/* The shortest and the longest time of an interval are known as far as its buckets tell. */
TEST(extremes_of_an_interval)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = open_meter(ctx, by_thread);
	struct ocp_sample *earlier, *later, *between;

	pair = (struct ocp_pair){ .count = 2, .min_ns = 1, .max_ns = 1 << 30 };
	buckets[1] = buckets[200] = 1;
	earlier = read_sample(meter);
	pair.count += 2;
	buckets[50]++;
	buckets[60]++;
	later = read_sample(meter);
	assert_int_equal(ocp_sample_pair(later, 0)->min_ns, 1);
	assert_int_equal(ocp_sample_pair(later, 0)->max_ns, 1 << 30);
	assert_int_equal(ocp_sample_difference(later, earlier, &between), 0);
	assert_int_equal(ocp_sample_pair(between, 0)->count, 2);
	assert_int_equal(ocp_sample_pair(between, 0)->min_ns, ocp_bucket_start(50));
	assert_int_equal(ocp_sample_pair(between, 0)->max_ns, ocp_bucket_start(61) - 1);
	ocp_sample_free(between);
	ocp_sample_free(later);
	ocp_sample_free(earlier);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

/* One went on, one ended and its number came round, and one is new. */
TEST(threads_that_come_and_go)
{
	static const uint64_t expected[] = { 3, 2, 4 };
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = open_meter(ctx, by_thread);
	struct ocp_sample *earlier, *later, *between;

	set_keyed(0, 7, 10);
	set_keyed(1, 8, 50);
	earlier = read_sample(meter);
	set_keyed(0, 7, 13);
	set_keyed(1, 8, 2);
	set_keyed(2, 9, 4);
	later = read_sample(meter);
	assert_int_equal(ocp_sample_difference(later, earlier, &between), 0);
	assert_int_equal(ocp_sample_hits_count(between), 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(ocp_sample_hits(between, i)->tid, 7 + i);
		assert_int_equal(ocp_sample_hits(between, i)->hits, expected[i]);
	}
	ocp_sample_free(between);
	ocp_sample_free(later);
	ocp_sample_free(earlier);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

/* ---- without memory ------------------------------------------------------------------------- */

/* Whichever allocation it is that fails, nothing comes of it but the error. */
TEST(without_memory_there_is_no_sample)
{
	static const char *const metas[] = { by_thread, by_site };

	for (size_t i = 0; i < 2; i++) {
		struct ocp_ctx *ctx = ocp_ctx_new();
		struct ocp_meter *meter = open_meter(ctx, metas[i]);
		struct ocp_sample *sample = read_sample(meter), *other;
		bool is_read = false;
		int call, err;

		for (call = 1; call < 100; call++) {
			n_allocations = call;
			err = is_read ? ocp_sample_difference(sample, sample, &other)
				      : ocp_meter_read(meter, &other);
			if (n_allocations == 0) {
				assert_int_equal(err, -ENOMEM);
				assert_null(other);
				continue;
			}
			n_allocations = 0;
			assert_int_equal(err, 0);
			ocp_sample_free(other);
			assert_true(call > 5);
			if (is_read)
				break;
			is_read = true;
			call = 0;
		}
		assert_true(call < 100);
		ocp_sample_free(sample);
		ocp_meter_free(meter);
		ocp_ctx_free(ctx);
	}
}

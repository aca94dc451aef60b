// SPDX-License-Identifier: MIT
/* What a sample makes of an engine's counters. */
#include <errno.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "measure/pin_meta.h"
#include "unit.h"

#define TEXT_OF(number) AS_TEXT(number)
#define AS_TEXT(number) #number

/* Two probes and a pair of them, by thread. */
static const char meta[] = "ocaml-probes-kept 2 " TEXT_OF(
	MEASURE_VERSION) "\nstart 1\nsplit 2\nkey -1\ncost 1.0 1.0\npid 1\npair =a =b\n"
			 "probe 1 =a\nprobe 1 =b\nfile =/x\nsite 0 0 1 0 0 0 = =\n"
			 "site 1 0 2 0 0 0 = =\n";

static struct engine_pair pair;
static uint32_t probe_index;

static int read_counters(struct engine *engine, struct engine_reading *reading)
{
	(void)engine;
	reading->pairs[0] = pair;
	reading->keyed = calloc(1, sizeof(*reading->keyed));
	assert_non_null(reading->keyed);
	reading->keyed[0] =
		(struct engine_keyed){ .id = 7, .tgid = 7, .probe_index = probe_index, .hits = 3 };
	reading->n_keyed = 1;
	return 0;
}

static void close_engine(struct engine *engine)
{
	(void)engine;
}

static const struct engine_ops ops = { .read = read_counters, .close = close_engine };

static struct ocp_meter *open_meter(struct ocp_ctx *ctx)
{
	struct ocp_meter *meter = ocp_meter_new(ctx);
	char *text = strdup(meta);

	assert_non_null(meter);
	assert_int_equal(site_table_keep(&meter->table, text), 0);
	assert_int_equal(pin_meta_parse(meter, "meta", text), 0);
	meter->ops = &ops;
	meter->engine = (struct engine *)meter; /* not looked into */
	return meter;
}

/* A start that went anywhere is not open, whatever became of it. */
static void starts_that_are_open(void **state)
{
	static const struct engine_pair all = {
		.starts = 100,
		.count = 1,
		.orphan_starts = 2,
		.map_full = 8,
		.not_keyed = 16,
		.orphan_stops = 32,
	};
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = open_meter(ctx);
	struct ocp_sample *sample;

	(void)state;
	pair = all;
	probe_index = 0;
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

static void hits_of_no_probe(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = open_meter(ctx);
	struct ocp_sample *sample;

	(void)state;
	probe_index = 1;
	assert_int_equal(ocp_meter_read(meter, &sample), 0);
	ocp_sample_free(sample);
	probe_index = 2;
	assert_int_equal(ocp_meter_read(meter, &sample), -EBADMSG);
	assert_null(sample);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_that_are_open),
		cmocka_unit_test(hits_of_no_probe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

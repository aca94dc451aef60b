// SPDX-License-Identifier: MIT
/* What measuring costs, asked of engines that cost nothing or do not come up. */
#include <errno.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure/calibrate.h"
#include "measure/meter.h"
#include "unit.h"

/* An engine without anything behind it. */
static int open_nothing(struct ocp_ctx *ctx, const struct engine_spec *spec, struct engine **out)
{
	(void)ctx;
	(void)spec;
	*out = NULL;
	return 0;
}

static sem_t may_open;

static int open_when_told(struct ocp_ctx *ctx, const struct engine_spec *spec, struct engine **out)
{
	sem_wait(&may_open);
	return open_nothing(ctx, spec, out);
}

static int open_never(struct ocp_ctx *ctx, const struct engine_spec *spec, struct engine **out)
{
	(void)spec;
	*out = NULL;
	return ctx_error(ctx, -EPERM, "not today");
}

static int attach_nothing(struct engine *engine, const struct engine_file *files, size_t n)
{
	(void)engine;
	(void)files;
	(void)n;
	return 0;
}

static void close_nothing(struct engine *engine)
{
	(void)engine;
}

static struct engine_ops ops_that(int (*open)(struct ocp_ctx *, const struct engine_spec *,
					      struct engine **))
{
	return (struct engine_ops){ .open = open,
				    .attach = attach_nothing,
				    .close = close_nothing };
}

static const struct engine_spec counting = { .max_sites = 1 };

/* Of what costs nothing the clock says now a little more, now a little less. */
TEST(a_cost_is_not_negative)
{
	const struct engine_ops ops = ops_that(open_nothing);

	for (int i = 0; i < 12; i++) {
		struct calibration *c = calibration_start(&ops, &counting, false);
		struct ocp_costs costs;
		const char *why;

		assert_non_null(c);
		assert_int_equal(calibration_result(c, true, &costs, &why), 0);
		assert_true(costs.cost_per_hit_ns >= 0 && costs.cost_per_hit_ns < 1000);
		calibration_free(c);
	}
}

/* Several calibrations at once. ocp_meter_costs_now() does not wait: it would never return. */
TEST(costs_can_be_asked_for_without_waiting)
{
	enum { N = 6 };
	const struct engine_ops ops = ops_that(open_when_told);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meters[N];
	struct ocp_costs costs;

	assert_int_equal(sem_init(&may_open, 0, 0), 0);
	for (int i = 0; i < N; i++) {
		meters[i] = ocp_meter_new(ctx);
		assert_non_null(meters[i]);
		meters[i]->calibration = calibration_start(&ops, &counting, false);
		assert_non_null(meters[i]->calibration);
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(ocp_meter_costs_now(meters[i], &costs), -EAGAIN);
	for (int i = 0; i < N; i++)
		assert_int_equal(sem_post(&may_open), 0);
	for (int i = 0; i < N; i++) {
		assert_int_equal(ocp_meter_costs(meters[i], &costs), 0);
		assert_int_equal(ocp_meter_costs_now(meters[i], &costs), 0);
		ocp_meter_free(meters[i]);
	}
	sem_destroy(&may_open);
	ocp_ctx_free(ctx);
}

static int know_costs(struct ocp_ctx *ctx, const struct engine_spec *spec, struct ocp_costs *costs)
{
	(void)ctx;
	*costs = (struct ocp_costs){ .cost_per_hit_ns = 1.5,
				     .cost_per_paired_hit_ns = spec->request.n_pairs ? 15 : 0 };
	return 0;
}

/* An engine that cannot be on sites of our own, and is not asked to be. */
TEST(an_engine_may_know_its_costs)
{
	struct engine_ops ops = ops_that(open_never);
	const struct engine_spec timing = { .max_sites = 1, .request.n_pairs = 3 };
	struct calibration *c;
	struct ocp_costs costs;
	const char *why;

	ops.costs = know_costs;
	c = calibration_start(&ops, &timing, false);
	assert_non_null(c);
	assert_true(calibration_estimate(c, &costs));
	assert_true(costs.cost_per_hit_ns == 1.5);
	assert_int_equal(calibration_result(c, true, &costs, &why), 0);
	assert_true(costs.cost_per_hit_ns == 1.5 && costs.cost_per_paired_hit_ns == 15);
	calibration_free(c);
}

TEST(what_cannot_be_found_out_is_said)
{
	const struct engine_ops ops = ops_that(open_never);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = ocp_meter_new(ctx);
	struct ocp_costs costs;

	assert_non_null(meter);
	assert_int_equal(ocp_meter_costs_now(meter, &costs), -ENODATA);
	meter->calibration = calibration_start(&ops, &counting, false);
	assert_int_equal(ocp_meter_costs(meter, &costs), -ENODATA);
	assert_int_equal(ocp_meter_costs_now(meter, &costs), -ENODATA);
	assert_string_equal(ocp_error(ctx), "the cost of measuring is not known: not today");
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

void first_calibration_site(void); /* calibrate.c's */

static void put_on_site(unsigned char byte)
{
	unsigned char *site = (unsigned char *)(uintptr_t)first_calibration_site;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *page = site - (uintptr_t)site % page_bytes;

	assert_int_equal(mprotect(page, page_bytes, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	*site = byte;
	assert_int_equal(mprotect(page, page_bytes, PROT_READ | PROT_EXEC), 0);
}

/* The thread that calibrates sleeps between its looks at the sites: it tells, and is let go on. */
static sem_t sleeps, may_wake;
static bool is_held;

WRAP(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
{
	if (is_held) {
		sem_post(&sleeps);
		sem_wait(&may_wake);
	}
	return __real_nanosleep(time, left);
}

/* A uprobe that was taken off and is still there, since somebody else has its link. */
TEST(idle_sites_are_waited_for)
{
	const struct engine_ops ops = ops_that(open_nothing);
	struct calibration *c;
	struct ocp_costs costs;
	const char *why;

	assert_int_equal(sem_init(&sleeps, 0, 0) | sem_init(&may_wake, 0, 0), 0);
	put_on_site(0xcc);
	is_held = true;
	c = calibration_start(&ops, &counting, false);
	assert_non_null(c);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(sem_wait(&sleeps), 0);
		/* Nobody has run the int3: that is the end of a process. */
		assert_int_equal(calibration_result(c, false, &costs, &why), -EAGAIN);
		if (i == 49) {
			put_on_site(0x90);
			is_held = false;
		}
		assert_int_equal(sem_post(&may_wake), 0);
	}
	assert_int_equal(calibration_result(c, true, &costs, &why), 0);
	calibration_free(c);
	put_on_site(0xcc);
	c = calibration_start(&ops, &counting, false);
	assert_non_null(c);
	assert_int_equal(calibration_result(c, true, &costs, &why), -ENODATA);
	assert_string_equal(why, "another program has uprobes on the calibration code");
	calibration_free(c);
	put_on_site(0x90);
	sem_destroy(&sleeps);
	sem_destroy(&may_wake);
}

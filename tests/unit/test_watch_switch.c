// SPDX-License-Identifier: MIT
/*
 * The watch switches handlers and counters: when asked to, and by itself because of a budget.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "measured_child.h"
#include "watched_program.h"

ALONE;

ALL_TESTS(set_up_program, tear_down_program);

TEST(test_handlers_are_switched)
{
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct running a = start(program), b = start(program);
	struct watching w = watch_it(&spec, 1, false);
	size_t n;

	tick(&w);
	tick(&w);
	assert_int_equal(probe_called(&w, "with_site")->handler, WATCH_HANDLER_OFF);
	assert_int_equal(probe_called(&w, "started_on")->handler, WATCH_HANDLER_ON);
	assert_int_equal(probe_called(&w, "started_on")->n_enabled, 2);
	assert_int_equal(watch_switch_handler(w.watch, 0, "with_site", true, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(probe_called(&w, "with_site")->handler, WATCH_HANDLER_ON);
	assert_int_equal(watch_switch_handler(w.watch, 0, "with_site", true, &n), 0);
	assert_int_equal(n, 0);
	go(&a, 5);
	assert_int_equal(watch_switch_handler(w.watch, 0, "with_site", false, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(probe_called(&w, "with_site")->n_enabled, 0);
	assert_int_equal(watch_switch_handler(w.watch, 0, "nothing", true, &n), -ENOENT);
	quit(&a);
	quit(&b);
	tick(&w);
	assert_int_equal(probe_called(&w, "with_site")->handler, WATCH_HANDLER_UNKNOWN);
	assert_int_equal(watch_switch_handler(w.watch, 0, "with_site", true, &n), -ESRCH);
	assert_int_equal(hits_now(&w), 5);
	end(&w);
}

/* A crowd is switched, and looked into in part only, for an open process takes descriptors. */
TEST(test_a_crowd_is_switched)
{
	enum { CROWD = 100, AT_MOST = 80 };
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct running crowd[CROWD];
	struct watching w;
	size_t n, n_descriptors;

	for (size_t i = 0; i < CROWD; i++)
		crowd[i] = start(program);
	w = watch_it(&spec, 1, false);
	await_costs(&w);
	n_descriptors = count_descriptors();
	assert_int_equal(watch_switch_handler(w.watch, 0, "with_site", true, &n), 0);
	assert_int_equal(n, CROWD);
	for (size_t i = 0; i < 20; i++)
		tick(&w);
	assert_true(count_descriptors() < n_descriptors + 2 * AT_MOST);
	for (size_t i = 0; i < CROWD; i++)
		quit(&crowd[i]);
	end(&w);
}

TEST(test_counters_are_switched)
{
	const struct watch_spec spec = { .exe = program, .request = &time_too };
	struct running running = start(program);
	struct watching w = watch_it(&spec, 1, false);

	go(&running, 5);
	assert_int_equal(watch_switch_counter(w.watch, 0, "both", false), 0);
	go(&running, 5);
	tick(&w);
	assert_int_equal(probe_called(&w, "both")->hits, 5);
	assert_int_equal(probe_called(&w, "with_site")->hits, 10);
	assert_false(probe_called(&w, "both")->is_counted);
	tick(&w);
	assert_true(isnan(probe_called(&w, "both")->rate));
	assert_true(probe_called(&w, "with_site")->rate == 0);
	assert_true(isnan(watch_probe_rate(w.watch, WATCH_MINUTE, 0,
					   (size_t)watch_find_probe(the_target(&w), "both"), 0)));
	/* In a new generation of the file it is off, too. */
	quit(&running);
	copy_program(program);
	tick(&w);
	run(program, 5);
	tick(&w);
	assert_int_equal(probe_called(&w, "both")->hits, 5);
	assert_int_equal(probe_called(&w, "with_site")->hits, 15);
	assert_int_equal(watch_switch_counter(w.watch, 0, "both", true), 0);
	run(program, 5);
	tick(&w);
	assert_int_equal(probe_called(&w, "both")->hits, 10);
	assert_int_equal(watch_switch_counter(w.watch, 0, "with_site", false), -EINVAL);
	assert_int_equal(watch_switch_counter(w.watch, 0, "nothing", false), -ENOENT);
	assert_true(probe_called(&w, "with_site")->is_counted);
	end(&w);
}

/* Make descriptors scarce: FEW are left. Those that fill the table go into *FILLED, *N of them. */
static rlim_t leave_descriptors(unsigned int few, int **filled, size_t *n)
{
	struct rlimit limit;
	rlim_t before;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = 1000;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	*filled = calloc(limit.rlim_cur, sizeof(**filled));
	for (*n = 0; (fd = dup(0)) >= 0; ++*n)
		(*filled)[*n] = fd;
	assert_int_equal(errno, EMFILE);
	assert_true(*n > few);
	while (few--)
		close((*filled)[--*n]);
	return before;
}

static void allow_descriptors(rlim_t limit, int *filled, size_t n)
{
	struct rlimit now;

	while (n--)
		close(filled[n]);
	free(filled);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	now.rlim_cur = limit;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

/* Two generations of a file are two sources. */
TEST(test_a_counter_is_switched_everywhere_or_nowhere)
{
	struct item both = { ITEM_PROBE, "both" };
	const struct measure_request count_both = { .counted = { &both, 1 } };
	const struct watch_spec spec = { .exe = program, .request = &count_both };
	struct watching w = watch_it(&spec, 1, false);
	struct running old = start(program), new;
	unsigned int few = 0;
	int *filled, err;
	size_t n;

	copy_program(program);
	tick(&w);
	new = start(program);
	await_costs(&w);
	assert_int_equal(watch_switch_counter(w.watch, 0, "both", false), 0);
	/* Enough for the first, but not for both. */
	do {
		const rlim_t before = leave_descriptors(few, &filled, &n);

		err = watch_switch_counter(w.watch, 0, "both", true);
		if (err)
			print_message("%u left: %s\n", few, ocp_error(w.ctx));
		allow_descriptors(before, filled, n);
		go(&old, 5);
		go(&new, 5);
		assert_int_equal(probe_called(&w, "both")->is_counted, !err);
		assert_int_equal(watch_read(w.watch), 0);
		assert_int_equal(probe_called(&w, "both")->hits, err ? 0 : 10);
	} while (err && ++few < 20);
	assert_int_equal(err, 0);
	assert_true(few >= 2);
	assert_int_equal(watch_switch_counter(w.watch, 0, "both", false), 0);
	go(&old, 5);
	go(&new, 5);
	assert_int_equal(watch_read(w.watch), 0);
	assert_int_equal(probe_called(&w, "both")->hits, 10);
	quit(&old);
	quit(&new);
	end(&w);
}

/*
 * Hits before the cost of a hit is known, in the first of two ticks; the budget covers these, too.
 */
static struct watching watch_early_hits(const struct watch_spec *spec, struct running *running)
{
	struct watching w = watch_it(spec, 1, false);

	go(running, 10000);
	tick(&w);
	go(running, 10);
	tick(&w);
	await_costs(&w);
	assert_non_null(the_target(&w)->problem);
	return w;
}

TEST(test_hits_before_the_costs_are_known)
{
	struct measure_request cheap = time_too;
	struct watch_spec spec = { .exe = program, .request = &cheap };
	struct running running = start(program);
	struct watching w;

	cheap.budget = 1e-6;
	w = watch_early_hits(&spec, &running);
	assert_non_null(strstr(the_target(&w)->problem, "measuring stopped"));
	tick(&w);
	assert_true(the_target(&w)->cpu_overhead == 0);
	quit(&running);
	end(&w);
}

/* The counters are switched off, and the next hits cost nothing. */
TEST(test_counters_before_the_costs_are_known)
{
	struct measure_request cheap = count_all;
	struct watch_spec spec = { .exe = program, .request = &cheap };
	struct running running = start(program);
	struct watching w;
	uint64_t hits;

	cheap.budget = 1e-6;
	w = watch_early_hits(&spec, &running);
	assert_non_null(strstr(the_target(&w)->problem, "busiest counters switched off"));
	assert_false(probe_called(&w, "both")->is_counted);
	hits = hits_now(&w);
	go(&running, 10000);
	assert_int_equal(hits_now(&w), hits);
	assert_true(the_target(&w)->is_up);
	quit(&running);
	end(&w);
}

TEST(test_budgets_are_kept)
{
	struct measure_request cheap = count_all, cheap_pair = time_too;
	struct watch_spec spec = { .exe = program, .request = &cheap };
	struct running running = start(program);
	struct watching w = watch_it(&spec, 1, false);

	cheap.budget = cheap_pair.budget = 1e-6;
	assert_int_equal(watch_set(w.watch, &spec, 1), 0);
	tick(&w);
	await_costs(&w);
	assert_null(the_target(&w)->problem);
	go(&running, 10000);
	tick(&w);
	assert_non_null(the_target(&w)->problem);
	assert_non_null(strstr(the_target(&w)->problem, "budget"));
	assert_false(probe_called(&w, "both")->is_counted);
	go(&running, 10000);
	assert_int_equal(hits_now(&w), 10000);
	/* A pair has no counter that could be switched off: it is not measured any more. */
	spec.request = &cheap_pair;
	assert_int_equal(watch_set(w.watch, &spec, 1), 0);
	/* Asked for anew, nothing is wrong, and all is counted, until that costs too much again. */
	assert_null(the_target(&w)->problem);
	assert_true(probe_called(&w, "both")->is_counted);
	await_costs(&w);
	go(&running, 10000);
	tick(&w);
	tick(&w);
	go(&running, 10000);
	assert_int_equal(watch_read(w.watch), 0);
	assert_int_equal(the_target(&w)->pairs[0].sum.count, 10000);
	assert_false(the_target(&w)->is_up);
	/* It runs on. */
	assert_int_equal(the_target(&w)->n_pids, 0);
	assert_false(the_target(&w)->knows_pids);
	tick(&w);
	assert_true(isnan(probe_called(&w, "with_site")->rate));
	quit(&running);
	end(&w);
}

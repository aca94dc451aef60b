// SPDX-License-Identifier: MIT
/*
 * The watch, against programs that come and go.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixture.h"
#include "measured_child.h"
#include "serve/config.h"
#include "watched_program.h"

ALONE;

/* ---- programs that come and go -------------------------------------------------------------- */

ALL_TESTS(set_up_program, tear_down_program);

TEST(test_totals_go_on_over_restarts)
{
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);

	tick(&w);
	assert_false(the_target(&w)->is_up);
	assert_true(probe_called(&w, "both")->is_counted);
	assert_false(probe_called(&w, "without_site")->is_counted);
	for (unsigned int i = 1; i <= 3; i++) {
		struct running running = start(program);

		go(&running, 100);
		tick(&w);
		assert_true(the_target(&w)->is_up);
		assert_int_equal(the_target(&w)->n_pids, 1);
		assert_int_equal(the_target(&w)->pids[0], running.pid);
		quit(&running);
		tick(&w);
		assert_false(the_target(&w)->is_up);
		assert_int_equal(hits_now(&w), 100 * i);
	}
	end(&w);
}

/* Without any tick between: the file is what is measured, not the processes that were seen. */
TEST(test_nobody_is_missed)
{
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);

	for (unsigned int i = 0; i < 20; i++)
		run(program, 7);
	assert_int_equal(hits_now(&w), 140);
	end(&w);
}

TEST(test_a_replaced_file_is_found)
{
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);
	struct running old, new;

	old = start(program);
	go(&old, 10);
	copy_program(program);
	tick(&w);
	new = start(program);
	go(&new, 5);
	go(&old, 10);
	tick(&w);
	assert_int_equal(the_target(&w)->n_pids, 2);
	assert_int_equal(hits_now(&w), 25);
	quit(&old);
	tick(&w);
	tick(&w); /* the old file's source has ended by now */
	assert_int_equal(the_target(&w)->n_pids, 1);
	go(&new, 5);
	assert_int_equal(hits_now(&w), 30);
	assert_null(the_target(&w)->problem);
	quit(&new);
	unlink(program);
	tick(&w);
	assert_int_equal(hits_now(&w), 30);
	assert_non_null(the_target(&w)->problem);
	copy_program(program);
	tick(&w);
	assert_null(the_target(&w)->problem);
	run(program, 3);
	assert_int_equal(hits_now(&w), 33);
	end(&w);
}

/* Releases side by side, and a link to the one that is to run. */
TEST(test_a_link_is_followed)
{
	char link[80], new_link[80], release[80];
	struct running old, new;
	const struct watch_spec spec = { .exe = link, .request = &count_all },
				both[] = { spec, { .exe = release, .request = &count_all } };
	struct watching w;

	snprintf(release, sizeof(release), "%s-2", program);
	snprintf(link, sizeof(link), "%s.link", program);
	snprintf(new_link, sizeof(new_link), "%s.new-link", program);
	copy_program(release);
	assert_int_equal(symlink(program, link), 0);
	w = watch_it(&spec, 1, false);
	assert_string_equal(the_target(&w)->exe, link);
	old = start(link);
	go(&old, 10);
	assert_int_equal(symlink(release, new_link), 0);
	assert_int_equal(rename(new_link, link), 0);
	tick(&w);
	new = start(link);
	go(&old, 10);
	go(&new, 5);
	tick(&w);
	assert_int_equal(the_target(&w)->n_pids, 2);
	assert_int_equal(hits_now(&w), 25);
	quit(&old);
	tick(&w);
	tick(&w);
	go(&new, 5);
	assert_int_equal(hits_now(&w), 30);
	assert_null(the_target(&w)->problem);
	/* By its own name it is the same. */
	assert_int_equal(watch_set(w.watch, both, 2), -EINVAL);
	assert_int_equal(watch_set(w.watch, &spec, 1), 0);
	assert_int_equal(hits_now(&w), 30);
	quit(&new);
	end(&w);
	unlink(link);
	unlink(release);
}

/* Wait until somebody waits for our lease: then /proc/locks calls it so. */
static void await_lease_breaker(void)
{
	char line[256], ours[32];

	snprintf(ours, sizeof(ours), " %d ", (int)getpid());
	for (unsigned int i = 0; i < 2000; i++) {
		FILE *locks = fopen("/proc/locks", "re");
		bool is_broken = false;

		assert_non_null(locks);
		while (fgets(line, sizeof(line), locks))
			is_broken |= strstr(line, " BREAKING ") && strstr(line, ours);
		fclose(locks);
		if (is_broken)
			return;
		sleep_ms(10);
	}
	fail_msg("nobody waits for the lease");
}

/*
 * As `cp` does it. The writer waits until we are off the file; the program that is written would
 * otherwise run with our int3 in the middle of its instructions.
 */
TEST(test_an_overwritten_file_is_found)
{
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);
	int status, n_ticks = 0;
	pid_t writer;

	run(program, 10);
	writer = fork();
	if (writer == 0)
		execlp("cp", "cp", fixture_path("v2"), program, NULL);
	await_lease_breaker();
	assert_int_equal(waitpid(writer, &status, WNOHANG), 0);
	tick(&w);
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_int_equal(status, 0);
	assert_non_null(the_target(&w)->problem);
	run(program, 1000); /* not measured, and not harmed */
	assert_int_equal(hits_now(&w), 10);
	while (the_target(&w)->problem) {
		sleep_ms(250);
		tick(&w);
		assert_true(++n_ticks < 160);
	}
	run(program, 10);
	assert_int_equal(hits_now(&w), 20);
	end(&w);
}

TEST(test_a_process_is_followed)
{
	struct running running = start(program), other;
	const struct watch_spec spec = { .pid = running.pid, .request = &count_all };
	struct watching w;

	other = start(program);
	w = watch_it(&spec, 1, false);
	go(&running, 11);
	go(&other, 1000);
	assert_int_equal(hits_now(&w), 11);
	quit(&other);
	quit(&running);
	tick(&w);
	assert_false(the_target(&w)->is_up);
	assert_int_equal(hits_now(&w), 11);
	running = start(program);
	tick(&w);
	assert_true(the_target(&w)->is_up);
	go(&running, 4);
	assert_int_equal(hits_now(&w), 15);
	quit(&running);
	end(&w);
}

static struct rlimit limit_descriptors(rlim_t n)
{
	struct rlimit before, now;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = (struct rlimit){ .rlim_cur = n, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	return before;
}

/* Without descriptors no process can be looked for; that is a problem as long as it lasts. */
TEST(test_a_problem_that_passes)
{
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);
	struct rlimit before;

	before = limit_descriptors(0);
	tick(&w);
	limit_descriptors(before.rlim_cur);
	assert_non_null(the_target(&w)->problem);
	tick(&w);
	assert_null(the_target(&w)->problem);
	end(&w);
}

/* A problem does not delay processes that want to write to the file. */
TEST(test_writers_need_not_wait_for_problems)
{
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);
	struct rlimit before = limit_descriptors(0);
	pid_t writer = fork(), ended = 0;

	if (writer == 0) {
		setrlimit(RLIMIT_NOFILE, &before);
		_exit(open(program, O_WRONLY | O_CLOEXEC) < 0);
	}
	for (unsigned int i = 0; i < 300 && !ended; i++) {
		usleep(100 * 1000);
		tick(&w);
		ended = waitpid(writer, NULL, WNOHANG);
	}
	limit_descriptors(before.rlim_cur);
	if (!ended) {
		kill(writer, SIGKILL);
		waitpid(writer, NULL, 0);
	}
	assert_int_equal(ended, writer);
	end(&w);
}

TEST(test_nothing_stays_of_processes)
{
	struct running running = start(program);
	const struct watch_spec specs[] = { { .pid = running.pid, .request = &count_all } };
	struct watching w = watch_it(specs, 1, false);
	size_t before;

	quit(&running);
	tick(&w);
	before = count_descriptors();
	for (unsigned int i = 0; i < 5; i++) {
		running = start(program);
		tick(&w);
		tick(&w);
		tick(&w);
		quit(&running);
		tick(&w);
		assert_int_equal(count_descriptors(), before);
	}
	end(&w);
}

TEST(test_rows_by_process)
{
	const struct watch_spec spec = { .exe = program, .request = &count_all };
	struct watching w = watch_it(&spec, 1, true);
	struct running a = start(program), b = start(program);
	uint64_t of_a = 0, of_b = 0;

	go(&a, 3);
	go(&b, 4);
	assert_int_equal(hits_now(&w), 7);
	for (size_t i = 0; i < the_target(&w)->n_rows; i++) {
		const struct watch_row *row = &the_target(&w)->rows[i];

		assert_true(row->pid == a.pid || row->pid == b.pid);
		if (strcmp(row->probe, "both") == 0)
			*(row->pid == a.pid ? &of_a : &of_b) += row->hits;
	}
	assert_int_equal(of_a, 3);
	assert_int_equal(of_b, 4);
	quit(&a);
	quit(&b);
	end(&w);
}

/* What a process has hit before it is measured in another way, too. */
TEST(test_rows_go_on)
{
	struct running running = start(program);
	const struct watch_spec specs[] = { { .exe = program, .request = &count_all },
					    { .exe = program, .request = &time_too } };
	struct watching w = watch_it(specs, 1, true);

	for (unsigned int i = 1; i <= 4; i++) {
		assert_int_equal(watch_set(w.watch, &specs[i % 2], 1), 0);
		tick(&w);
		go(&running, 5);
		assert_int_equal(hits_now(&w), 5 * i);
		assert_int_equal(the_target(&w)->n_rows, 3);
		for (size_t j = 0; j < 3; j++)
			assert_int_equal(the_target(&w)->rows[j].hits, 5 * i);
	}
	quit(&running);
	for (unsigned int i = 0; i < 301; i++)
		tick(&w);
	/* It has ended: its rows are those of all that have. */
	assert_int_equal(hits_now(&w), 20);
	assert_int_equal(the_target(&w)->n_rows, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(the_target(&w)->rows[i].pid, 0);
		assert_int_equal(the_target(&w)->rows[i].hits, 20);
	}
	end(&w);
}

/* ---- pairs and the last minute -------------------------------------------------------------- */

TEST(test_pairs_go_on_too)
{
	const struct watch_spec spec = { .exe = program, .request = &time_too };
	struct watching w = watch_it(&spec, 1, false);
	uint64_t in_buckets = 0;
	const struct watch_pair *pair;

	run(program, 100);
	copy_program(program);
	tick(&w);
	tick(&w);
	run(program, 50);
	hits_now(&w);
	assert_int_equal(the_target(&w)->n_pairs, 1);
	pair = &the_target(&w)->pairs[0];
	assert_int_equal(pair->sum.count, 150);
	assert_int_equal(pair->sum.open + pair->sum.orphan_starts + pair->sum.orphan_stops, 0);
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		in_buckets += pair->sum.buckets[i];
	assert_int_equal(in_buckets, 150);
	assert_true(pair->sum.min_ns * 150 <= pair->sum.sum_ns);
	assert_true(pair->sum.max_ns * 150 >= pair->sum.sum_ns);
	assert_true(probe_called(&w, "with_site")->is_in_pair);
	assert_false(probe_called(&w, "both")->is_in_pair);
	end(&w);
}

/* A tick with 1000 hits since the last, some of which took at least and at most these seconds. */
static void assert_rate_of_1000(double rate, int64_t least_ns, int64_t most_ns)
{
	assert_true(rate <= 1000 * 1e9 / (double)least_ns);
	assert_true(rate >= 1000 * 1e9 / (double)most_ns);
}

TEST(test_the_last_minute)
{
	const struct watch_spec spec = { .exe = program, .request = &time_too };
	struct watching w = watch_it(&spec, 1, false);
	struct running running = start(program);
	int64_t before_ns = clock_ns(CLOCK_MONOTONIC), start_ns, stop_ns;
	const size_t both = 0;
	uint64_t n = 0;
	size_t n_columns;

	tick(&w);
	start_ns = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(watch_column_count(w.watch, WATCH_MINUTE), 1);
	assert_true(isnan(probe_called(&w, "both")->rate));
	go(&running, 1000);
	sleep_ms(WATCH_TICK_MS);
	stop_ns = clock_ns(CLOCK_MONOTONIC);
	tick(&w);
	n_columns = watch_column_count(w.watch, WATCH_MINUTE);
	assert_true(n_columns >= 2);
	assert_rate_of_1000(probe_called(&w, "both")->rate, stop_ns - start_ns,
			    clock_ns(CLOCK_MONOTONIC) - before_ns);
	assert_true(fabs(watch_probe_rate(w.watch, WATCH_MINUTE, 0, both, 0) -
			 probe_called(&w, "both")->rate) < 1);
	assert_true(isnan(watch_probe_rate(w.watch, WATCH_MINUTE, 0, both, n_columns - 1)));
	assert_true(isnan(watch_probe_rate(w.watch, WATCH_MINUTE, 0, both, n_columns)));
	assert_non_null(watch_pair_column(w.watch, WATCH_MINUTE, 0, 0, 0));
	assert_null(watch_pair_column(w.watch, WATCH_MINUTE, 0, 0, 1));
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		n += watch_pair_column(w.watch, WATCH_MINUTE, 0, 0, 0)[i];
	assert_int_equal(n, 1000);
	assert_true(the_target(&w)->pairs[0].p50_ns > 0);
	/* Two ticks late: the column between is not known. */
	sleep_ms(2 * WATCH_TICK_MS);
	tick(&w);
	assert_true(watch_column_count(w.watch, WATCH_MINUTE) >= n_columns + 2);
	assert_true(watch_probe_rate(w.watch, WATCH_MINUTE, 0, both, 0) == 0);
	assert_true(isnan(watch_probe_rate(w.watch, WATCH_MINUTE, 0, both, 1)));
	await_costs(&w);
	assert_true(the_target(&w)->cost_per_hit_ns > 0);
	assert_true(the_target(&w)->cpu_overhead_seconds > 3000 * 100e-9);
	quit(&running);
	end(&w);
}

/* The next column of the quarter hour, which is complete after these ticks. */
static void fill_quarter(struct watching *w)
{
	do
		tick(w);
	while (watch_column_time_ns(w->watch, WATCH_QUARTER_HOUR) !=
	       watch_column_time_ns(w->watch, WATCH_MINUTE));
}

static uint64_t pairs_in_quarter(const struct watching *w, size_t age)
{
	const uint32_t *column = watch_pair_column(w->watch, WATCH_QUARTER_HOUR, 0, 0, age);
	uint64_t n = 0;

	assert_non_null(column);
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		n += column[i];
	return n;
}

static double quarter_rate(const struct watching *w, size_t age)
{
	return watch_probe_rate(w->watch, WATCH_QUARTER_HOUR, 0, 0, age);
}

/* Fifteen ticks are a column; its rate is the hits by the time. */
TEST(test_the_quarter_of_an_hour)
{
	const struct watch_spec spec = { .exe = program, .request = &time_too };
	struct watching w = watch_it(&spec, 1, false);
	struct running running = start(program);
	int64_t start_ns;

	tick(&w);
	start_ns = clock_ns(CLOCK_MONOTONIC) - WATCH_TICK_MS * 1000000LL;
	assert_int_equal(watch_column_count(w.watch, WATCH_QUARTER_HOUR), 0);
	assert_true(isnan(quarter_rate(&w, 0)));
	assert_null(watch_pair_column(w.watch, WATCH_QUARTER_HOUR, 0, 0, 0));
	go(&running, 700);
	tick(&w);
	go(&running, 300);
	fill_quarter(&w);
	assert_rate_of_1000(quarter_rate(&w, 0), 1, clock_ns(CLOCK_MONOTONIC) - start_ns);
	assert_int_equal(pairs_in_quarter(&w, 0), 1000);
	assert_true(watch_column_time_ns(w.watch, WATCH_QUARTER_HOUR) ==
		    watch_column_time_ns(w.watch, WATCH_MINUTE));
	/* What is not complete is not there yet. */
	go(&running, 5);
	tick(&w);
	assert_int_equal(watch_column_count(w.watch, WATCH_QUARTER_HOUR), 1);
	assert_int_equal(pairs_in_quarter(&w, 0), 1000);
	assert_true(watch_column_time_ns(w.watch, WATCH_QUARTER_HOUR) ==
		    watch_column_time_ns(w.watch, WATCH_MINUTE) - WATCH_TICK_MS * 1000000LL);
	fill_quarter(&w);
	assert_int_equal(pairs_in_quarter(&w, 0), 5);
	assert_int_equal(pairs_in_quarter(&w, 1), 1000);
	/* While the counter is off, nothing is known; the rate is that of the rest of the time. */
	assert_int_equal(watch_switch_counter(w.watch, 0, "both", false), 0);
	fill_quarter(&w);
	assert_true(isnan(quarter_rate(&w, 0)));
	start_ns = clock_ns(CLOCK_MONOTONIC);
	tick(&w);
	assert_int_equal(watch_switch_counter(w.watch, 0, "both", true), 0);
	go(&running, 1000);
	tick(&w);
	start_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
	assert_int_equal(watch_switch_counter(w.watch, 0, "both", false), 0);
	sleep_ms((unsigned int)(start_ns / 1000000) + 100);
	fill_quarter(&w);
	assert_rate_of_1000(quarter_rate(&w, 0), 1, start_ns);
	/* The ring has room for all of the quarter of an hour. */
	for (size_t i = 0; i < WATCH_COLUMNS - 4; i++)
		fill_quarter(&w);
	assert_int_equal(watch_column_count(w.watch, WATCH_QUARTER_HOUR), WATCH_COLUMNS);
	assert_int_equal(pairs_in_quarter(&w, WATCH_COLUMNS - 1), 1000);
	tick(&w);
	assert_int_equal(pairs_in_quarter(&w, WATCH_COLUMNS - 1), 1000);
	fill_quarter(&w);
	assert_int_equal(pairs_in_quarter(&w, WATCH_COLUMNS - 1), 5);
	quit(&running);
	end(&w);
}

/* Within its bucket a quantile is a guess, but no time is longer than the longest. */
TEST(test_quantiles_of_one)
{
	const struct watch_spec spec = { .exe = program, .request = &time_too };
	struct watching w = watch_it(&spec, 1, false);
	const struct watch_pair *pair;

	tick(&w);
	run(program, 1);
	tick(&w);
	pair = &the_target(&w)->pairs[0];
	assert_int_equal(pair->sum.count, 1);
	assert_int_equal(pair->sum.min_ns, pair->sum.max_ns);
	assert_true(pair->p50_ns > 0);
	assert_true(pair->p50_ns <= pair->sum.max_ns);
	assert_true(pair->p99_ns <= pair->sum.max_ns);
	end(&w);
}

/* ---- what is asked for ---------------------------------------------------------------------- */

TEST(test_asking_for_something_else)
{
	struct running running = start(program);
	const struct watch_spec by_exe = { .exe = program, .request = &count_all },
				paired = { .exe = program, .request = &time_too },
				missing = { .exe = "/nonexistent", .request = &count_all },
				by_pid = { .pid = running.pid, .request = &count_all };
	struct watching w = watch_it(&by_exe, 1, false);

	go(&running, 5);
	/* What is wrong changes nothing. */
	assert_int_equal(watch_set(w.watch, (struct watch_spec[]){ by_exe, missing }, 2), -ENOENT);
	assert_int_equal(watch_set(w.watch, (struct watch_spec[]){ by_exe, by_exe }, 2), -EINVAL);
	assert_int_equal(watch_set(w.watch, (struct watch_spec[]){ by_exe, by_pid }, 2), -EINVAL);
	go(&running, 5);
	assert_int_equal(hits_now(&w), 10);
	/* Once more the same, then with a pair: the counts go on. */
	assert_int_equal(watch_set(w.watch, &by_exe, 1), 0);
	go(&running, 5);
	assert_int_equal(hits_now(&w), 15);
	assert_int_equal(watch_set(w.watch, &paired, 1), 0);
	go(&running, 5);
	assert_int_equal(hits_now(&w), 20);
	assert_int_equal(the_target(&w)->pairs[0].sum.count, 5);
	assert_int_equal(watch_set(w.watch, NULL, 0), 0);
	assert_int_equal(watch_target_count(w.watch), 0);
	assert_int_equal(watch_set(w.watch, &by_pid, 1), 0);
	assert_true(the_target(&w)->is_up);
	go(&running, 5);
	assert_int_equal(hits_now(&w), 5);
	quit(&running);
	end(&w);
}

/*
 * From the configuration of `serve` to the probes. Readers of notes refuse such names, so no
 * program has them; they are not taken for two names that it has.
 */
TEST(test_names_with_commas)
{
	static const char *const targets[] = {
		"'count': ['with_site,both']",
		"'time': [['with_site,both', 'started_on']]",
		"'time': [['started_on', 'with_site,both']]",
	};
	struct watching w = { .ctx = ctx_or_skip() };

	w.watch = watch_new(w.ctx, false);
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct watch_spec spec = { .exe = program };
		struct config *config;
		char json[512], said[256];

		snprintf(json, sizeof(json), "{'targets': [{'exe': '%s', %s}]}", program,
			 targets[i]);
		snprintf(said, sizeof(said), "probe 'with_site,both': no such probe in %s",
			 program);
		assert_int_equal(config_parse(w.ctx, "config", json, strlen(json), &config), 0);
		spec.request = config->targets[0].request;
		assert_int_equal(watch_set(w.watch, &spec, 1), -ENOENT);
		assert_string_equal(ocp_error(w.ctx), said);
		config_free(config);
	}
	end(&w);
}

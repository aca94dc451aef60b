// SPDX-License-Identifier: MIT
/*
 * The watch, against programs that come and go: fixtures whose rounds pass three sites once each
 * (with_site, both, started_on), in copies of their own.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixture.h"
#include "measured_child.h"
#include "watch/watch.h"

static const char *const all_probes[] = { NULL };
static const char *const the_pair[] = { "with_site,started_on" };
static const struct measure_options count_all = { .counts = (const char **)all_probes,
						  .n_counts = 1 };
static const struct measure_options time_too = { .counts = (const char **)all_probes,
						 .n_counts = 1,
						 .times = (const char **)the_pair,
						 .n_times = 1 };

/* ---- programs ------------------------------------------------------------------------------- */

static char program[64]; /* a copy of the fixture v2 */

static void copy_program(const char *to)
{
	char command[256];

	snprintf(command, sizeof(command), "cp %s %s.new && mv %s.new %s", fixture_path("v2"), to,
		 to, to);
	assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(program, sizeof(program), "/tmp/watch.%d.v2", (int)getpid());
	copy_program(program);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(program);
	return 0;
}

struct running {
	pid_t pid;
	FILE *in, *out;
};

static void await(struct running *running, const char *line)
{
	char seen[128];

	while (fgets(seen, sizeof(seen), running->out))
		if (strncmp(seen, line, strlen(line)) == 0)
			return;
	fail_msg("the program ended before it said '%s'", line);
}

static struct running start(const char *path)
{
	struct running running;
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	running.pid = fork();
	if (running.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(path, path, "--wait", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	running.in = fdopen(in[1], "w");
	running.out = fdopen(out[0], "r");
	await(&running, "ready");
	return running;
}

static void go(struct running *running, unsigned int rounds)
{
	fprintf(running->in, "go %u\n", rounds);
	fflush(running->in);
	await(running, "done");
}

static void quit(struct running *running)
{
	int status;

	fclose(running->in);
	assert_int_equal(waitpid(running->pid, &status, 0), running->pid);
	assert_int_equal(status, 0);
	fclose(running->out);
}

static void run(const char *path, unsigned int rounds)
{
	struct running running = start(path);

	go(&running, rounds);
	quit(&running);
}

/* ---- what is watched ------------------------------------------------------------------------ */

struct watching {
	struct ocp_ctx *ctx;
	struct watch *watch;
};

static struct watching watch_it(const struct watch_spec *specs, size_t n, bool by_process)
{
	struct watching w = { .ctx = ctx_or_skip() };
	int err;

	w.watch = watch_new(w.ctx, by_process);
	assert_non_null(w.watch);
	err = watch_set(w.watch, specs, n);
	if (err)
		print_message("%s\n", ocp_error(w.ctx));
	assert_int_equal(err, 0);
	return w;
}

static void end(struct watching *w)
{
	watch_free(w->watch);
	ocp_ctx_free(w->ctx);
}

static void tick(struct watching *w)
{
	assert_int_equal(watch_tick(w->watch), 0);
}

/* The hits of with_site now, after those of the others, which are hit as often, were compared. */
static uint64_t hits_now(struct watching *w)
{
	static const char *const names[] = { "both", "started_on", "with_site" };
	const struct watch_target *target;
	uint64_t hits = 0;

	assert_int_equal(watch_read(w->watch), 0);
	assert_int_equal(watch_target_count(w->watch), 1);
	target = watch_target(w->watch, 0);
	for (size_t i = 0; i < 3; i++) {
		ptrdiff_t at = watch_find_probe(target, names[i]);

		assert_true(at >= 0);
		assert_true(i == 0 || target->probes[at].hits == hits);
		hits = target->probes[at].hits;
	}
	return hits;
}

static const struct watch_target *the_target(struct watching *w)
{
	return watch_target(w->watch, 0);
}

static const struct watch_probe *probe_called(struct watching *w, const char *name)
{
	const ptrdiff_t at = watch_find_probe(the_target(w), name);

	assert_true(at >= 0);
	return &the_target(w)->probes[at];
}

/* ---- programs that come and go -------------------------------------------------------------- */

static void test_totals_go_on_over_restarts(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &count_all };
	struct watching w = watch_it(&spec, 1, false);

	(void)state;
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
static void test_nobody_is_missed(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &count_all };
	struct watching w = watch_it(&spec, 1, false);

	(void)state;
	for (unsigned int i = 0; i < 20; i++)
		run(program, 7);
	assert_int_equal(hits_now(&w), 140);
	end(&w);
}

static void test_a_replaced_file_is_found(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &count_all };
	struct watching w = watch_it(&spec, 1, false);
	struct running old, new;

	(void)state;
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

/*
 * As `cp` does it. The writer waits until we are off the file; the program that is written would
 * otherwise run with our int3 in the middle of its instructions.
 */
static void test_an_overwritten_file_is_found(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &count_all };
	struct watching w = watch_it(&spec, 1, false);
	int status, n_ticks = 0;
	pid_t writer;

	(void)state;
	run(program, 10);
	writer = fork();
	if (writer == 0)
		execlp("cp", "cp", fixture_path("v2"), program, NULL);
	sleep_ms(100);
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
		assert_true(++n_ticks < 40);
	}
	run(program, 10);
	assert_int_equal(hits_now(&w), 20);
	end(&w);
}

static void test_a_process_is_followed(void **state)
{
	struct running running = start(program), other;
	const struct watch_spec spec = { .pid = running.pid, .measure = &count_all };
	struct watching w;

	(void)state;
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

static size_t count_descriptors(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_nothing_stays_of_processes(void **state)
{
	struct running running = start(program);
	const struct watch_spec specs[] = { { .pid = running.pid, .measure = &count_all } };
	struct watching w = watch_it(specs, 1, false);
	size_t before;

	(void)state;
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

static void test_rows_by_process(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &count_all };
	struct watching w = watch_it(&spec, 1, true);
	struct running a = start(program), b = start(program);
	uint64_t of_a = 0, of_b = 0;

	(void)state;
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

/* ---- pairs and the last minute -------------------------------------------------------------- */

static void test_pairs_go_on_too(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &time_too };
	struct watching w = watch_it(&spec, 1, false);
	uint64_t in_buckets = 0;
	const struct watch_pair *pair;

	(void)state;
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

static void test_the_last_minute(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &time_too };
	struct watching w = watch_it(&spec, 1, false);
	struct running running = start(program);
	int64_t before_ns = clock_ns(CLOCK_MONOTONIC), start_ns, stop_ns;
	const size_t both = 0;
	uint64_t n = 0;
	size_t n_columns;

	(void)state;
	tick(&w);
	start_ns = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(watch_column_count(w.watch), 1);
	assert_true(isnan(probe_called(&w, "both")->rate));
	go(&running, 1000);
	sleep_ms(WATCH_TICK_MS);
	stop_ns = clock_ns(CLOCK_MONOTONIC);
	tick(&w);
	n_columns = watch_column_count(w.watch);
	assert_true(n_columns >= 2);
	assert_rate_of_1000(probe_called(&w, "both")->rate, stop_ns - start_ns,
			    clock_ns(CLOCK_MONOTONIC) - before_ns);
	assert_true(fabs(watch_probe_rate(w.watch, 0, both, 0) - probe_called(&w, "both")->rate) <
		    1);
	assert_true(isnan(watch_probe_rate(w.watch, 0, both, n_columns - 1)));
	assert_true(isnan(watch_probe_rate(w.watch, 0, both, n_columns)));
	assert_non_null(watch_pair_column(w.watch, 0, 0, 0));
	assert_null(watch_pair_column(w.watch, 0, 0, 1));
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		n += watch_pair_column(w.watch, 0, 0, 0)[i];
	assert_int_equal(n, 1000);
	assert_true(the_target(&w)->pairs[0].p50_ns > 0);
	/* Two ticks late: the column between is not known. */
	sleep_ms(2 * WATCH_TICK_MS);
	tick(&w);
	assert_true(watch_column_count(w.watch) >= n_columns + 2);
	assert_true(watch_probe_rate(w.watch, 0, both, 0) == 0);
	assert_true(isnan(watch_probe_rate(w.watch, 0, both, 1)));
	assert_true(the_target(&w)->hit_ns > 0);
	assert_true(the_target(&w)->cost_seconds > 3000 * 100e-9);
	quit(&running);
	end(&w);
}

/* Within its bucket a quantile is a guess, but no time is longer than the longest. */
static void test_quantiles_of_one(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &time_too };
	struct watching w = watch_it(&spec, 1, false);
	const struct watch_pair *pair;

	(void)state;
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

static void test_asking_for_something_else(void **state)
{
	struct running running = start(program);
	const struct watch_spec by_exe = { .exe = program, .measure = &count_all },
				paired = { .exe = program, .measure = &time_too },
				missing = { .exe = "/nonexistent", .measure = &count_all },
				by_pid = { .pid = running.pid, .measure = &count_all };
	struct watching w = watch_it(&by_exe, 1, false);

	(void)state;
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
	go(&running, 5);
	assert_int_equal(hits_now(&w), 5);
	quit(&running);
	end(&w);
}

/* Others may run on this machine, too. */
static void test_programs_are_found(void **state)
{
	const struct watch_spec spec = { .measure = &count_all };
	struct running running = start(program);
	struct watching w = watch_it(&spec, 1, false);
	const struct watch_target *target;
	ptrdiff_t at;

	(void)state;
	tick(&w);
	assert_true(watch_find_target(w.watch, program) >= 0);
	go(&running, 9);
	tick(&w);
	target = watch_target(w.watch, (size_t)watch_find_target(w.watch, program));
	at = watch_find_probe(target, "both");
	assert_true(at >= 0);
	assert_int_equal(target->probes[at].hits, 9);
	assert_true(target->is_up);
	quit(&running);
	end(&w);
}

/* ---- switching ------------------------------------------------------------------------------ */

static void test_handlers_are_switched(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &count_all };
	struct running a = start(program), b = start(program);
	struct watching w = watch_it(&spec, 1, false);
	size_t n;

	(void)state;
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

static void test_counters_are_switched(void **state)
{
	const struct watch_spec spec = { .exe = program, .measure = &time_too };
	struct running running = start(program);
	struct watching w = watch_it(&spec, 1, false);

	(void)state;
	go(&running, 5);
	assert_int_equal(watch_switch_counter(w.watch, 0, "both", false), 0);
	go(&running, 5);
	tick(&w);
	assert_int_equal(probe_called(&w, "both")->hits, 5);
	assert_int_equal(probe_called(&w, "with_site")->hits, 10);
	assert_false(probe_called(&w, "both")->is_counted);
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
static void test_a_counter_is_switched_everywhere_or_nowhere(void **state)
{
	const char *both[] = { "both" };
	const struct measure_options count_both = { .counts = both, .n_counts = 1 };
	const struct watch_spec spec = { .exe = program, .measure = &count_both };
	struct watching w = watch_it(&spec, 1, false);
	struct running old = start(program), new;
	unsigned int few = 0;
	int *filled, err;
	size_t n;

	(void)state;
	copy_program(program);
	tick(&w);
	new = start(program);
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

static void test_budgets_are_kept(void **state)
{
	struct measure_options cheap = count_all, cheap_pair = time_too;
	struct watch_spec spec = { .exe = program, .measure = &cheap };
	struct running running = start(program);
	struct watching w = watch_it(&spec, 1, false);

	(void)state;
	cheap.budget = cheap_pair.budget = 1e-6;
	assert_int_equal(watch_set(w.watch, &spec, 1), 0);
	tick(&w);
	sleep_ms(WATCH_TICK_MS);
	tick(&w); /* what a hit costs is known now */
	assert_null(the_target(&w)->problem);
	go(&running, 10000);
	tick(&w);
	assert_non_null(the_target(&w)->problem);
	assert_non_null(strstr(the_target(&w)->problem, "budget"));
	assert_false(probe_called(&w, "both")->is_counted);
	go(&running, 10000);
	assert_int_equal(hits_now(&w), 10000);
	/* A pair has no counter that could be switched off: it is not measured any more. */
	spec.measure = &cheap_pair;
	assert_int_equal(watch_set(w.watch, &spec, 1), 0);
	sleep_ms(WATCH_TICK_MS);
	tick(&w);
	go(&running, 10000);
	tick(&w);
	tick(&w);
	go(&running, 10000);
	assert_int_equal(watch_read(w.watch), 0);
	assert_int_equal(the_target(&w)->pairs[0].sum.count, 10000);
	assert_false(the_target(&w)->is_up);
	quit(&running);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_totals_go_on_over_restarts),
		cmocka_unit_test(test_nobody_is_missed),
		cmocka_unit_test(test_a_replaced_file_is_found),
		cmocka_unit_test(test_an_overwritten_file_is_found),
		cmocka_unit_test(test_a_process_is_followed),
		cmocka_unit_test(test_nothing_stays_of_processes),
		cmocka_unit_test(test_rows_by_process),
		cmocka_unit_test(test_pairs_go_on_too),
		cmocka_unit_test(test_the_last_minute),
		cmocka_unit_test(test_quantiles_of_one),
		cmocka_unit_test(test_asking_for_something_else),
		cmocka_unit_test(test_programs_are_found),
		cmocka_unit_test(test_handlers_are_switched),
		cmocka_unit_test(test_counters_are_switched),
		cmocka_unit_test(test_a_counter_is_switched_everywhere_or_nowhere),
		cmocka_unit_test(test_budgets_are_kept),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

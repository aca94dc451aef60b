// SPDX-License-Identifier: MIT
/* The measuring engine against real processes: counts, other tracers, privileges. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "measured_child.h"

ALONE;

enum { N_THREADS = 6, HITS_A_THREAD = 100000 };

/* ---- tests ---------------------------------------------------------------------------------- */

TEST(counts_of_threads_are_exact)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_file file;
	struct child child, bystander;
	struct engine *engine;

	child_start(&child);
	child_start(&bystander);
	file = engine_file_of(&child.pid, &site, 1);
	engine = attached(ctx, &file, NULL);
	assert_int_equal(read_hot(engine), 0);
	await_hot_site(&child, INT3, 1);
	child_run(&bystander, (struct order){ RUN_HOT, 2, 1000, "" });
	child_run(&child, (struct order){ RUN_HOT, N_THREADS, HITS_A_THREAD, "" });
	assert_int_equal(read_hot(engine), (uint64_t)N_THREADS * HITS_A_THREAD);
	assert_int_equal(engine_bpf.detach(engine), 0);
	await_hot_site(&child, NOP, 0);
	child_run(&child, (struct order){ RUN_HOT, 1, 1000, "" });
	assert_int_equal(read_hot(engine), (uint64_t)N_THREADS * HITS_A_THREAD);
	assert_string_equal(last_warning, "");
	engine_bpf.close(engine);
	child_end(&child);
	child_end(&bystander);
	ocp_ctx_free(ctx);
}

TEST(nothing_is_counted_after_detach)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_file file;
	struct child child;
	struct engine *engine;

	child_start(&child);
	child_order(&child, (struct order){ .what = RUN_UNTIL_KILLED });
	file = engine_file_of(&child.pid, &site, 1);
	engine = attached(ctx, &file, NULL);
	for (int round = 0; round < 20; round++) {
		uint64_t before = read_hot(engine), after;

		for (int i = 0; i < 4000 && read_hot(engine) == before; i++)
			sleep_ms(5);
		assert_int_equal(engine_bpf.detach(engine), 0);
		after = read_hot(engine);
		assert_true(after > before);
		sleep_ms(5);
		assert_int_equal(read_hot(engine), after);
		assert_int_equal(engine_bpf.attach(engine, &file, 1), 0);
	}
	engine_bpf.close(engine);
	await_hot_site(&child, NOP, 0);
	child_end(&child);
	ocp_ctx_free(ctx);
}

TEST(bpf_filter_counts_all_threads_of_one_process)
{
	static const struct engine_bpf_options in_bpf = { .filter_in_bpf = true };
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_file file;
	struct child child, bystander;
	struct engine *engine;

	child_start(&child);
	child_start(&bystander);
	file = engine_file_of(&child.pid, &site, 1);
	engine = attached(ctx, &file, &in_bpf);
	await_hot_site(&bystander, INT3, 1);
	child_run(&bystander, (struct order){ RUN_HOT, 2, 1000, "" });
	child_run(&child, (struct order){ RUN_HOT, N_THREADS, 10000, "" });
	assert_int_equal(engine_bpf.detach(engine), 0);
	assert_int_equal(read_hot(engine), N_THREADS * 10000);
	await_hot_site(&bystander, NOP, 0);
	engine_bpf.close(engine);
	child_end(&child);
	child_end(&bystander);
	ocp_ctx_free(ctx);
}

/* A process in a pid namespace of its own has another id than the one in the request. */
TEST(filters_reach_into_a_pid_namespace)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	int outer = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	struct engine_file file;
	struct child child;

	assert_true(outer >= 0);
	if (unshare(CLONE_NEWPID)) {
		print_message("skipped: no right to make a pid namespace\n");
		close(outer);
		ocp_ctx_free(ctx);
		skip();
	}
	child_start(&child);
	assert_int_equal(setns(outer, CLONE_NEWPID), 0);
	close(outer);
	file = engine_file_of(&child.pid, &site, 1);
	for (int in_bpf = 0; in_bpf < 2; in_bpf++) {
		struct engine_bpf_options options = { .filter_in_bpf = in_bpf };
		struct engine *engine = attached(ctx, &file, &options);

		child_run(&child, (struct order){ RUN_HOT, 2, 1000, "" });
		assert_int_equal(read_hot(engine), 2000);
		engine_bpf.close(engine);
	}
	child_end(&child);
	ocp_ctx_free(ctx);
}

/* As when its number is about to be a stranger's. */
TEST(who_is_unlisted_is_passed_over)
{
	static const struct engine_bpf_options all[] = {
		{ .filter_in_bpf = true }, { .filter_in_bpf = true, .perf_events = true }
	};
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_file file;
	struct child child;

	child_start(&child);
	file = engine_file_of(&child.pid, &site, 1);
	for (size_t i = 0; i < 2; i++) {
		struct engine *engine = attached(ctx, &file, &all[i]);

		engine_bpf.unlist(engine, child.pid + 1);
		child_run(&child, (struct order){ RUN_HOT, 2, 1000, "" });
		engine_bpf.unlist(engine, child.pid);
		engine_bpf.unlist(engine, child.pid);
		child_run(&child, (struct order){ RUN_HOT, 2, 1000, "" });
		assert_int_equal(read_hot(engine), 2000);
		engine_bpf.close(engine);
	}
	child_end(&child);
	ocp_ctx_free(ctx);
}

static bool is_listed(const struct engine *engine, __u32 id)
{
	__u32 value;

	return bpf_map_lookup_elem(engine->object.tgids, &id, &value) == 0;
}

/* In the kernel, before its number is free: with its last thread, and not with one before. */
TEST(who_has_ended_is_not_in_the_list)
{
	static const struct engine_bpf_options in_bpf = { .filter_in_bpf = true };
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_file file;
	struct engine *engine;
	struct child child;
	__u32 id;

	child_start(&child);
	file = engine_file_of(&child.pid, &site, 1);
	engine = attached(ctx, &file, &in_bpf);
	if (!engine->sees_exits) {
		engine_bpf.close(engine);
		child_end(&child);
		ocp_ctx_free(ctx);
		skip();
	}
	id = engine->listed[0].id;
	for (uint64_t i = 1; i <= 2; i++) {
		child_run(&child, (struct order){ RUN_HOT, 4, 1000, "" });
		assert_true(is_listed(engine, id));
		assert_int_equal(read_hot(engine), i * 4000);
	}
	child_end(&child);
	assert_false(is_listed(engine, id));
	engine_bpf.close(engine);
	ocp_ctx_free(ctx);
}

/* Measure as the first process of a pid namespace. Returns what was wrong; 0: nothing. */
static int measure_children_elsewhere(struct ocp_ctx *ctx)
{
	struct engine_site site = hot_site();
	struct engine_reading reading = { 0 };
	struct engine_file file;
	struct engine_spec spec;
	struct engine *engine;
	struct child child;
	uint64_t hits;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL))
		return 1;
	child_start(&child);
	file = engine_file_of(&child.pid, &site, 1);
	spec = spec_of(&file);
	spec.request.children = true;
	if (engine_bpf.open(ctx, &spec, &engine) || engine_bpf.attach(engine, &file, 1))
		return 2;
	child_run(&child, (struct order){ RUN_HOT, 1, 1000, "" });
	child_run(&child, (struct order){ FORK_ELSEWHERE, 1, 100, "" });
	reading.hits = &hits;
	if (engine_bpf.read(engine, &reading) || hits != 1000)
		return 3;
	if (reading.losses.passed_over != 100)
		return 4;
	/* Neither is the number it has there, which is ours here. */
	if (is_listed(engine, 1))
		return 5;
	engine_bpf.close(engine);
	child_end(&child);
	return 0;
}

/* A child in a pid namespace of its own is not followed: its number means nothing here. */
TEST(children_elsewhere_are_not_followed)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWPID | CLONE_NEWNS))
			_exit(100);
		pid = fork();
		if (pid == 0)
			_exit(measure_children_elsewhere(ctx));
		_exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									   : 101);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ocp_ctx_free(ctx);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 100) {
		print_message("skipped: no right to make a pid namespace\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* What the caller has open leaves the sites no room below the limit, which is raised. */
TEST(perf_events_have_room_beside_what_is_open)
{
	enum { N = 8, N_OTHERS = 100 };
	static const struct engine_bpf_options perf = { .perf_events = true };
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site *sites = calloc(N_MANY, sizeof(*sites));
	int others[N_OTHERS], highest = -1;
	struct rlimit before, limit;
	struct engine_file file;
	struct engine *engine;
	struct child child;

	assert_non_null(sites);
	many_sites(sites);
	child_start(&child);
	file = engine_file_of(&child.pid, sites, N);
	for (int i = 0; i < N_OTHERS; i++) {
		others[i] = dup(STDERR_FILENO);
		assert_true(others[i] >= 0);
		highest = others[i] > highest ? others[i] : highest;
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	/* Some for the maps and programs, but none for the sites. */
	limit = (struct rlimit){ (rlim_t)highest + 24, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	engine = attached(ctx, &file, &perf);
	engine_bpf.close(engine);
	for (int i = 0; i < N_OTHERS; i++)
		close(others[i]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	child_end(&child);
	free(sites);
	ocp_ctx_free(ctx);
}

TEST(many_sites_are_told_apart)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site *sites = calloc(N_MANY, sizeof(*sites));
	uint64_t *hits = calloc(N_MANY + 1, sizeof(*hits));
	struct engine_site hot = hot_site();
	struct engine_file files[2];
	struct engine_spec spec;
	struct child child;
	struct engine *engine;

	assert_true(sites && hits);
	many_sites(sites);
	child_start(&child);
	files[0] = engine_file_of(&child.pid, sites, N_MANY);
	files[1] = engine_file_of(&child.pid, &hot, 1);
	files[1].first_site = N_MANY;
	spec = spec_of(&files[0]);
	spec.max_sites = N_MANY + 1;
	assert_int_equal(engine_bpf.open(ctx, &spec, &engine), 0);
	assert_int_equal(engine_bpf.attach(engine, files, 2), 0);
	files[1].first_site++;
	assert_int_equal(engine_bpf.attach(engine, &files[1], 1), -E2BIG);
	assert_non_null(strstr(ocp_error(ctx), "no room for 1 more sites"));
	child_run(&child, (struct order){ RUN_MANY, 1, 30, "" });
	child_run(&child, (struct order){ RUN_HOT, 1, 7, "" });
	assert_int_equal(engine_bpf.detach(engine), 0);
	read_hits(engine, hits);
	for (size_t i = 0; i < N_MANY; i++)
		assert_int_equal(hits[i], 30);
	assert_int_equal(hits[N_MANY], 7);
	engine_bpf.close(engine);
	child_end(&child);
	free(sites);
	free(hits);
	ocp_ctx_free(ctx);
}

/* Somebody is on one site of many without its semaphore: that one goes without, and is counted. */
TEST(a_foreign_uprobe_without_semaphore_is_no_obstacle)
{
	enum { N = 50, TAKEN = 37 };
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site *sites = calloc(N_MANY, sizeof(*sites));
	struct engine_file ours, theirs;
	struct engine_site taken;
	struct engine *engine, *other;
	uint64_t hits[N], other_hits;
	struct child child;
	char where[32];

	assert_non_null(sites);
	many_sites(sites);
	taken = sites[TAKEN];
	taken.ref_ctr_off = 0;
	child_start(&child);
	theirs = engine_file_of(&child.pid, &taken, 1);
	ours = engine_file_of(&child.pid, sites, N);
	other = attached(ctx, &theirs, NULL);
	engine = attached(ctx, &ours, NULL);
	assert_non_null(strstr(last_warning, "1 of 50 sites"));
	snprintf(where, sizeof(where), "0x%" PRIx64, taken.nop_off);
	assert_non_null(strstr(last_warning, where));
	child_await(&child, &many_semaphore, 2, N - 1);
	child_run(&child, (struct order){ RUN_MANY, 1, 1000, "" });
	read_hits(engine, hits);
	read_hits(other, &other_hits);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(hits[i], 1000);
	assert_int_equal(other_hits, 1000);
	engine_bpf.close(engine);
	engine_bpf.close(other);
	child_await(&child, &many_semaphore, 2, 0);
	child_end(&child);
	free(sites);
	ocp_ctx_free(ctx);
}

TEST(a_foreign_uprobe_with_semaphore_is_named)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site with = hot_site(), without = with;
	struct engine_file ours, theirs;
	struct engine_spec spec;
	struct engine *engine, *other;
	struct child child;

	without.ref_ctr_off = 0;
	child_start(&child);
	theirs = engine_file_of(&child.pid, &with, 1);
	ours = engine_file_of(&child.pid, &without, 1);
	other = attached(ctx, &theirs, NULL);
	spec = spec_of(&ours);
	assert_int_equal(engine_bpf.open(ctx, &spec, &engine), 0);
	assert_int_equal(engine_bpf.attach(engine, &ours, 1), -EINVAL);
	assert_non_null(strstr(ocp_error(ctx), "another tracer"));
	assert_string_equal(ocp_hint(ctx), "end the other tracer first");
	engine_bpf.close(other);
	await_attach(ctx, engine, &ours);
	engine_bpf.close(engine);
	child_end(&child);
	ocp_ctx_free(ctx);
}

TEST(a_killed_tracer_leaves_nothing_behind)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_file file;
	struct child child;
	int ready[2];
	pid_t tracer;
	char c;

	child_start(&child);
	child_order(&child, (struct order){ .what = RUN_UNTIL_KILLED });
	file = engine_file_of(&child.pid, &site, 1);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	tracer = fork();
	assert_true(tracer >= 0);
	if (tracer == 0) {
		const struct engine_spec spec = spec_of(&file);
		struct engine *engine;

		if (engine_bpf.open(ctx, &spec, &engine) || engine_bpf.attach(engine, &file, 1))
			_exit(1);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	await_hot_site(&child, INT3, 1);
	kill(tracer, SIGKILL);
	await_hot_site(&child, NOP, 0);
	assert_int_equal(waitpid(child.pid, NULL, WNOHANG), 0);
	waitpid(tracer, NULL, 0);
	child_end(&child);
	ocp_ctx_free(ctx);
}

TEST(a_process_that_ended_is_named)
{
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_file file;
	struct engine_spec spec;
	struct engine *engine;
	struct child child;

	child_start(&child);
	file = engine_file_of(&child.pid, &site, 1);
	spec = spec_of(&file);
	assert_int_equal(engine_bpf.open(ctx, &spec, &engine), 0);
	child_end(&child);
	assert_int_equal(engine_bpf.attach(engine, &file, 1), -ESRCH);
	assert_non_null(strstr(ocp_error(ctx), "it ended"));
	engine_bpf.close(engine);
	ocp_ctx_free(ctx);
}

/* ---- privileges ----------------------------------------------------------------------------- */

static int keep_capabilities(unsigned long long keep)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
		{ .effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32) },
	};

	return (int)syscall(SYS_capset, &header, data);
}

/*
 * Open and attach as a process with no more than the capabilities KEEP. Returns what went wrong,
 * "" if nothing did.
 */
static const char *attach_with(unsigned long long keep, const struct engine_file *file)
{
	static char answer[1024];
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct engine_spec spec = spec_of(file);
		struct ocp_ctx *ctx = ocp_ctx_new();
		struct engine *engine = NULL;
		int err;

		if (!ctx || keep_capabilities(keep))
			_exit(1);
		err = engine_bpf.open(ctx, &spec, &engine);
		if (!err)
			err = engine_bpf.attach(engine, file, 1);
		if (err)
			dprintf(fds[1], "%d %s | %s", err, ocp_error(ctx),
				ocp_hint(ctx) ? ocp_hint(ctx) : "");
		_exit(0);
	}
	close(fds[1]);
	n = read(fds[0], answer, sizeof(answer) - 1);
	close(fds[0]);
	assert_true(n >= 0);
	answer[n] = '\0';
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	return answer;
}

TEST(missing_privileges_are_named)
{
	static const unsigned long long bpf = 1ULL << CAP_BPF, perfmon = 1ULL << CAP_PERFMON;
	struct ocp_ctx *ctx = ctx_or_skip();
	struct engine_site site = hot_site();
	struct engine_file file;
	struct child child;
	const char *answer;

	child_start(&child);
	file = engine_file_of(&child.pid, &site, 1);
	answer = attach_with(0, &file);
	assert_non_null(strstr(answer, "-1 measuring: ocaml-probes lacks CAP_BPF and CAP_PERFMON"));
	assert_non_null(strstr(answer, "cap_bpf,cap_perfmon=ep"));
	answer = attach_with(bpf, &file);
	assert_non_null(strstr(answer, "-1 measuring: ocaml-probes lacks CAP_PERFMON |"));
	answer = attach_with(perfmon, &file);
	assert_non_null(strstr(answer, "-1 measuring: ocaml-probes lacks CAP_BPF |"));
	assert_string_equal(attach_with(bpf | perfmon, &file), "");
	child_end(&child);
	ocp_ctx_free(ctx);
}

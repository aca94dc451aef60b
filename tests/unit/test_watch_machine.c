// SPDX-License-Identifier: MIT
/*
 * The watch over whatever has probes on this machine. Here that is this process and its children,
 * since it is not for a test to measure others.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "watched_program.h"

ALL_TESTS(set_up_program, tear_down_program);

TEST(test_programs_are_found)
{
	const struct watch_spec spec = { .request = &count_all };
	struct running running = start(program);
	struct watching w = watch_it(&spec, 1, false);

	tick(&w);
	assert_int_equal(watch_target_count(w.watch), 1);
	assert_string_equal(the_target(&w)->exe, program);
	go(&running, 9);
	tick(&w);
	assert_int_equal(probe_called(&w, "both")->hits, 9);
	assert_true(the_target(&w)->is_up);
	quit(&running);
	end(&w);
}

/* Whether it is asked for by name or found, a program's totals go on. */
TEST(test_named_and_found)
{
	const struct watch_spec named = { .exe = program, .request = &count_all },
				all = { .request = &count_all };
	struct running running = start(program);
	struct watching w = watch_it(&all, 1, false);

	for (unsigned int i = 1; i <= 4; i++) {
		assert_int_equal(watch_set(w.watch, i % 2 ? &named : &all, 1), 0);
		tick(&w);
		go(&running, 5);
		assert_int_equal(hits_now(&w), 5 * i);
	}
	quit(&running);
	end(&w);
}

/* Whose functions are read was named: code of others is not decoded here. */
TEST(test_functions_need_a_name)
{
	struct item function = { ITEM_FUNCTION, "fn:Evil.f" };
	struct request_pair pair = { .start = { ITEM_C_FUNCTION, "c:evil" } };
	const struct measure_request counts = { .counted = { &function, 1 } },
				     times = { .pairs = &pair, .n_pairs = 1 };
	const struct watch_spec all = { .request = &count_all }, counting = { .request = &counts },
				timing = { .request = &times };
	struct running running = start(program);
	struct watching w = watch_it(&all, 1, false);

	assert_int_equal(watch_set(w.watch, &counting, 1), -EINVAL);
	assert_int_equal(watch_set(w.watch, &timing, 1), -EINVAL);
	tick(&w);
	go(&running, 5);
	assert_int_equal(hits_now(&w), 5);
	quit(&running);
	end(&w);
}

/* Counted once for all its names: uprobes are on the file, whichever was executed. */
TEST(test_names_of_one_file)
{
	const struct watch_spec spec = { .request = &count_all };
	struct running first = start(program), linked, mounted;
	char link_name[80], mount_point[80];
	struct watching w;

	snprintf(link_name, sizeof(link_name), "%s-link", program);
	snprintf(mount_point, sizeof(mount_point), "%s-mount", program);
	assert_int_equal(link(program, link_name), 0);
	copy_program(mount_point);
	/* Others skip it in watch_it(). */
	if (geteuid() == 0)
		assert_int_equal(mount(program, mount_point, NULL, MS_BIND, NULL), 0);
	linked = start(link_name);
	mounted = start(mount_point);
	w = watch_it(&spec, 1, false);
	tick(&w);
	assert_int_equal(watch_target_count(w.watch), 1);
	assert_string_equal(the_target(&w)->exe, program);
	tick(&w);
	assert_int_equal(the_target(&w)->n_pids, 3);
	go(&first, 1);
	go(&linked, 10);
	go(&mounted, 100);
	assert_int_equal(hits_now(&w), 111);
	/* The name stays when only others are left. */
	quit(&first);
	tick(&w);
	go(&linked, 1000);
	assert_int_equal(hits_now(&w), 1111);
	assert_int_equal(the_target(&w)->n_pids, 2);
	quit(&linked);
	quit(&mounted);
	end(&w);
	umount2(mount_point, MNT_DETACH);
	unlink(mount_point);
	unlink(link_name);
}

/* What cost too much is not measured under its other name instead, until it is asked for anew. */
TEST(test_names_of_one_file_that_costs_too_much)
{
	struct measure_request cheap = time_too, dear = time_too;
	struct watch_spec spec = { .request = &cheap };
	struct running first = start(program), linked;
	char link_name[80];
	struct watching w;

	cheap.budget = 1e-6;
	dear.budget = 100;
	snprintf(link_name, sizeof(link_name), "%s-link", program);
	assert_int_equal(link(program, link_name), 0);
	linked = start(link_name);
	w = watch_it(&spec, 1, false);
	tick(&w);
	await_costs(&w);
	go(&first, 10000);
	tick(&w);
	assert_non_null(the_target(&w)->problem);
	/* The next searches. */
	for (unsigned int i = 0; i < 60; i++) {
		tick(&w);
		usleep(100 * 1000);
		assert_int_equal(watch_target_count(w.watch), 1);
		assert_false(the_target(&w)->is_up);
	}
	spec.request = &dear;
	assert_int_equal(watch_set(w.watch, &spec, 1), 0);
	tick(&w);
	assert_int_equal(watch_target_count(w.watch), 1);
	assert_true(the_target(&w)->is_up);
	assert_null(the_target(&w)->problem);
	quit(&first);
	quit(&linked);
	end(&w);
	unlink(link_name);
}

/* ---- file systems that stand on others ------------------------------------------------------ */

/* A folder that is a file system of its own, with overlays m0, m1 ... of the fixtures in FROM. */
static void mount_overlays(char *folder, const char *from, unsigned int n)
{
	char lower[PATH_MAX], options[PATH_MAX + 256], names[3][64];

	assert_non_null(realpath(from, lower));
	assert_non_null(mkdtemp(folder));
	/* Others skip it in watch_it(). */
	for (unsigned int i = 0; geteuid() == 0 && i < n; i++) {
		if (i == 0)
			assert_int_equal(mount("none", folder, "tmpfs", 0, NULL), 0);
		for (unsigned int j = 0; j < 3; j++) {
			snprintf(names[j], sizeof(names[j]), "%s/%c%u", folder, "uwm"[j], i);
			assert_int_equal(mkdir(names[j], 0755), 0);
		}
		snprintf(options, sizeof(options), "xino=off,lowerdir=%s,upperdir=%s,workdir=%s",
			 lower, names[0], names[1]);
		if (mount("none", names[2], "overlay", 0, options) == 0)
			continue;
		assert_int_equal(errno, ENODEV); /* a kernel without overlays */
		skip();
	}
}

/* Their files have one inode below, where the uprobes are: those of two containers of one image. */
TEST(test_layers_are_told_apart)
{
	char folder[] = "/tmp/watch.layers.XXXXXX", first[64], second[64];
	const struct watch_spec specs[] = { { .exe = first, .request = &count_all },
					    { .exe = second, .request = &count_all } };
	struct running one, other;
	struct watching w;

	mount_overlays(folder, fixture_path("."), 2);
	snprintf(first, sizeof(first), "%s/m0/v2", folder);
	snprintf(second, sizeof(second), "%s/m1/v2", folder);
	one = start(first);
	other = start(second);
	w = watch_it(specs, 2, false);
	tick(&w);
	go(&one, 100);
	go(&other, 10);
	tick(&w);
	assert_int_equal(probe_called(&w, "both")->hits, 100);
	assert_string_equal(watch_target(w.watch, 1)->exe, second);
	assert_int_equal(watch_target(w.watch, 1)->probes[0].hits, 10);
	quit(&one);
	quit(&other);
	end(&w);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
}

/* A process of FROM/v2, which is AT/v2 in the mount namespace that it has for itself. */
static struct running start_contained(const char *from, const char *at)
{
	char path[80];
	struct running running;
	const int outside = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	const int folder = open(".", O_PATH | O_CLOEXEC);

	if (geteuid() == 0) {
		assert_int_equal(unshare(CLONE_NEWNS), 0);
		assert_int_equal(mount(from, at, NULL, MS_BIND, NULL), 0);
	}
	snprintf(path, sizeof(path), "%s/v2", geteuid() == 0 ? at : from);
	running = start(path);
	if (geteuid() == 0)
		assert_int_equal(setns(outside, CLONE_NEWNS) | fchdir(folder), 0);
	close(outside);
	close(folder);
	return running;
}

/* Two containers of one image: one name for two files, which have their code in common. */
TEST(test_containers_have_names_in_common)
{
	char folder[] = "/tmp/watch.layers.XXXXXX", layers[2][64], at[64], exe[80];
	const struct watch_spec spec = { .request = &count_all };
	struct running one, other;
	struct watching w;

	mount_overlays(folder, fixture_path("."), 3);
	for (unsigned int i = 0; i < 2; i++)
		snprintf(layers[i], sizeof(layers[i]), "%s/m%u", folder, i);
	snprintf(at, sizeof(at), "%s/m2", folder);
	snprintf(exe, sizeof(exe), "%s/v2", at);
	one = start_contained(layers[0], at);
	other = start_contained(layers[1], at);
	w = watch_it(&spec, 1, false);
	tick(&w);
	tick(&w);
	assert_int_equal(watch_target_count(w.watch), 1);
	assert_string_equal(the_target(&w)->exe, exe);
	assert_int_equal(the_target(&w)->n_pids, 2);
	go(&one, 100);
	go(&other, 10);
	assert_int_equal(hits_now(&w), 110);
	quit(&one);
	tick(&w);
	assert_int_equal(the_target(&w)->n_pids, 1);
	go(&other, 1);
	assert_int_equal(hits_now(&w), 111);
	quit(&other);
	end(&w);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
}

/*
 * stat says another device of a program than the kernel has inside: its library is counted still.
 */
TEST(test_devices_that_stat_makes_up)
{
	char folder[] = "/tmp/watch.layers.XXXXXX", host[64];
	const struct watch_spec spec = { .exe = host, .request = &count_all };
	struct running running;
	struct watching w;

	mount_overlays(folder, fixture_path("binaries"), 1);
	snprintf(host, sizeof(host), "%s/m0/host", folder);
	setenv("LD_LIBRARY_PATH", fixture_path("binaries"), 1);
	running = start(host);
	unsetenv("LD_LIBRARY_PATH");
	w = watch_it(&spec, 1, false);
	tick(&w);
	go(&running, 100);
	tick(&w);
	assert_true(probe_called(&w, "host_only")->hits > 0);
	assert_int_equal(probe_called(&w, "linked_only")->hits,
			 probe_called(&w, "host_only")->hits);
	quit(&running);
	end(&w);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
}

/* ---- files that are replaced ---------------------------------------------------------------- */

/* What is measured of a file ends with its last process when nobody can run it again. */
TEST(test_found_files_that_were_replaced)
{
	const struct watch_spec spec = { .request = &count_all };
	struct running old = start(program), new;
	struct watching w = watch_it(&spec, 1, false);
	size_t n_descriptors;

	tick(&w);
	go(&old, 5);
	tick(&w);
	await_costs(&w);
	n_descriptors = count_descriptors();
	copy_program(program);
	quit(&old);
	new = start(program);
	/* For the next search. */
	for (unsigned int i = 0; i < 400 && probe_called(&w, "both")->hits < 6; i++) {
		usleep(100 * 1000);
		tick(&w);
		go(&new, 1);
		tick(&w);
	}
	assert_true(probe_called(&w, "both")->hits >= 6);
	for (unsigned int i = 0; i < 400 && count_descriptors() > n_descriptors; i++) {
		usleep(100 * 1000);
		tick(&w);
	}
	assert_true(count_descriptors() <= n_descriptors);
	quit(&new);
	end(&w);
}

/* Many programs that each run once: few of them are measured on, the others only remembered. */
TEST(test_found_programs_that_have_ended)
{
	enum { N = 14, KEPT = 8 };
	const struct watch_spec spec = { .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);
	size_t n_descriptors[3], n_each;
	struct running running[N];
	char paths[N][80];

	tick(&w);
	n_descriptors[0] = count_descriptors();
	for (int i = 0; i < N; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s.%d", program, i);
		copy_program(paths[i]);
		running[i] = start(paths[i]);
	}
	for (int i = 0; i < 400 && watch_target_count(w.watch) < N; i++) {
		usleep(100 * 1000);
		tick(&w);
	}
	assert_int_equal(watch_target_count(w.watch), N);
	await_costs(&w);
	for (int i = 0; i < N; i++) {
		go(&running[i], 7);
		fclose(running[i].in);
		fclose(running[i].out);
		running[i].in = running[i].out = NULL;
	}
	n_descriptors[1] = count_descriptors();
	n_each = (n_descriptors[1] - n_descriptors[0]) / N;
	assert_true(n_each >= 4);
	for (int i = 0; i < N; i++)
		assert_int_equal(waitpid(running[i].pid, NULL, 0), running[i].pid);
	n_descriptors[2] = n_descriptors[1];
	for (int i = 0; i < 200 && n_descriptors[2] > n_descriptors[0] + (KEPT + 1) * n_each; i++) {
		usleep(100 * 1000);
		tick(&w);
		n_descriptors[2] = count_descriptors();
	}
	assert_true(n_descriptors[2] <= n_descriptors[0] + (KEPT + 1) * n_each);
	/* What they were hit is not forgotten. */
	assert_int_equal(watch_target_count(w.watch), N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(watch_target(w.watch, (size_t)i)->probes[0].hits, 7);
		unlink(paths[i]);
	}
	end(&w);
}

/* The first process of a namespace cannot be traced, as LeakSanitizer does: it waits for the
 * second. */
static int enter_namespace(void)
{
	pid_t pid = -1;
	int status;

	/* Who may not do this may not measure either, and skips the test. */
	if (geteuid() != 0)
		return 0;
	if (unshare(CLONE_NEWPID | CLONE_NEWNS))
		return -1;
	for (int i = 0; i < 2; i++) {
		pid = fork();
		if (pid < 0)
			return -1;
		if (pid)
			_exit(waitpid(pid, &status, 0) != pid || status);
	}
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	return mount("proc", "/proc", "proc", 0, NULL);
}

BEFORE_GROUP(enter_namespace);

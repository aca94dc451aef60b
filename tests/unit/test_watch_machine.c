// SPDX-License-Identifier: MIT
/*
 * The watch over whatever has probes on this machine. Here that is this process and its children,
 * since it is not for a test to measure others.
 */
#include <errno.h>
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

static void test_programs_are_found(void **state)
{
	const struct watch_spec spec = { .measure = &count_all };
	struct running running = start(program);
	struct watching w = watch_it(&spec, 1, false);

	(void)state;
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
static void test_named_and_found(void **state)
{
	const struct watch_spec named = { .exe = program, .measure = &count_all },
				all = { .measure = &count_all };
	struct running running = start(program);
	struct watching w = watch_it(&all, 1, false);

	(void)state;
	for (unsigned int i = 1; i <= 4; i++) {
		assert_int_equal(watch_set(w.watch, i % 2 ? &named : &all, 1), 0);
		tick(&w);
		go(&running, 5);
		assert_int_equal(hits_now(&w), 5 * i);
	}
	quit(&running);
	end(&w);
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
static void test_layers_are_told_apart(void **state)
{
	char folder[] = "/tmp/watch.layers.XXXXXX", first[64], second[64];
	const struct watch_spec specs[] = { { .exe = first, .measure = &count_all },
					    { .exe = second, .measure = &count_all } };
	struct running one, other;
	struct watching w;

	(void)state;
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

/* stat says another device of a program than the kernel has inside: its library is counted still.
 */
static void test_devices_that_stat_makes_up(void **state)
{
	char folder[] = "/tmp/watch.layers.XXXXXX", host[64];
	const struct watch_spec spec = { .exe = host, .measure = &count_all };
	struct running running;
	struct watching w;

	(void)state;
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
static void test_found_files_that_were_replaced(void **state)
{
	const struct watch_spec spec = { .measure = &count_all };
	struct running old = start(program), new;
	struct watching w = watch_it(&spec, 1, false);
	size_t n_descriptors;

	(void)state;
	tick(&w);
	go(&old, 5);
	tick(&w);
	usleep(800 * 1000); /* that a hit's cost is known takes descriptors, too */
	tick(&w);
	n_descriptors = count_descriptors();
	copy_program(program);
	quit(&old);
	new = start(program);
	/* For the next search. */
	for (unsigned int i = 0; i < 80 && probe_called(&w, "both")->hits < 6; i++) {
		usleep(100 * 1000);
		tick(&w);
		go(&new, 1);
		tick(&w);
	}
	assert_true(probe_called(&w, "both")->hits >= 6);
	for (unsigned int i = 0; i < 30 && count_descriptors() > n_descriptors; i++) {
		usleep(100 * 1000);
		tick(&w);
	}
	assert_true(count_descriptors() <= n_descriptors);
	quit(&new);
	end(&w);
}

/* The first process of a namespace cannot be traced, as LeakSanitizer does: it waits for the
 * second. */
static int enter_namespace(void)
{
	pid_t pid = -1;
	int status;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs_are_found),
		cmocka_unit_test(test_named_and_found),
		cmocka_unit_test(test_layers_are_told_apart),
		cmocka_unit_test(test_devices_that_stat_makes_up),
		cmocka_unit_test(test_found_files_that_were_replaced),
	};

	/* Who may not do this may not measure either, and skips the test. */
	if (geteuid() == 0 && enter_namespace())
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, set_up_program, tear_down_program);
}

// SPDX-License-Identifier: MIT
/*
 * The watch over whatever has probes on this machine. Here that is this process and its children,
 * since it is not for a test to measure others.
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

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
	};

	/* Who may not do this may not measure either, and skips the test. */
	if (geteuid() == 0 && enter_namespace())
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, set_up_program, tear_down_program);
}

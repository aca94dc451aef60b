// SPDX-License-Identifier: MIT
/* Looking for the processes of a file again and again. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "process/find.h"
#include "unit.h"

enum { MANY_ROUNDS = 20 };

static bool is_found(const struct found_processes *found, pid_t pid)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->pids[i] == pid)
			return true;
	return false;
}

static bool find_pid(struct ocp_ctx *ctx, const struct stat *file, struct find_memory *memory,
		     pid_t pid)
{
	struct found_processes found;
	bool is_there;

	assert_int_equal(find_processes(ctx, file, "sleep", memory, &found), 0);
	assert_true(found.sees_all);
	is_there = is_found(&found, pid);
	for (size_t i = 1; i < found.n; i++)
		assert_true(found.pids[i - 1] < found.pids[i]);
	found_processes_free(&found);
	return is_there;
}

/* It ran something else for so long that it is not looked at each time any more. */
static void a_process_that_execs_late_is_found(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct find_memory memory = { 0 };
	size_t most_rounds;
	struct stat file;
	int go[2];
	pid_t pid;

	(void)state;
	assert_non_null(ctx);
	assert_int_equal(stat("/bin/sleep", &file), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char c;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(go[0], &c, 1) == 1)
			execl("/bin/sleep", "sleep", "100", NULL);
		_exit(1);
	}
	for (int i = 0; i < MANY_ROUNDS; i++)
		assert_false(find_pid(ctx, &file, &memory, pid));
	assert_true(memory.n > 0);
	most_rounds = memory.n / 256 + 2;
	assert_int_equal(write(go[1], "", 1), 1);
	while (!find_pid(ctx, &file, NULL, pid))
		usleep(1000);
	for (size_t i = 0; !find_pid(ctx, &file, &memory, pid); i++)
		assert_true(i < most_rounds);
	for (int i = 0; i < MANY_ROUNDS; i++)
		assert_true(find_pid(ctx, &file, &memory, pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(find_pid(ctx, &file, &memory, pid));
	close(go[0]);
	close(go[1]);
	find_memory_free(&memory);
	ocp_ctx_free(ctx);
}

/* What has ended is not remembered. */
static void the_memory_is_of_those_that_are(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct find_memory memory = { 0 };
	struct stat file;
	pid_t pid = 0;

	(void)state;
	assert_non_null(ctx);
	assert_int_equal(stat("/bin/sleep", &file), 0);
	for (int i = 0; i < 50; i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			pause();
			_exit(0);
		}
		find_pid(ctx, &file, &memory, pid);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	find_pid(ctx, &file, &memory, pid);
	for (size_t i = 0; i < memory.n; i++) {
		assert_int_not_equal(memory.others[i].pid, pid);
		assert_true(i == 0 || memory.others[i - 1].pid < memory.others[i].pid);
	}
	find_memory_free(&memory);
	ocp_ctx_free(ctx);
}

static void each_has_its_turn_once(void **state)
{
	(void)state;
	for (size_t n = 1; n < 3000; n += 500)
		for (pid_t pid = 1; pid < 100; pid++) {
			unsigned int turns = 0;

			for (unsigned int round = 7; round < 7 + n / 256 + 1; round++)
				turns += find_is_its_turn(pid, n, 256, round);
			assert_int_equal(turns, 1);
		}
	assert_true(find_is_its_turn(5, 255, 256, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_that_execs_late_is_found),
		cmocka_unit_test(the_memory_is_of_those_that_are),
		cmocka_unit_test(each_has_its_turn_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

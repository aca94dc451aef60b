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
#include "look/find.h"
#include "unit.h"

enum { MANY_ROUNDS = 20, A_ROUND = 256, CROWD = 300 };

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

	find_memory_expire(memory);
	assert_int_equal(find_processes(ctx, file, "sleep", memory, &found), 0);
	assert_true(found.sees_all);
	is_there = is_found(&found, pid);
	for (size_t i = 1; i < found.n; i++)
		assert_true(found.pids[i - 1] < found.pids[i]);
	found_processes_free(&found);
	return is_there;
}

/* By a search that knows nothing yet. */
static bool is_running(struct ocp_ctx *ctx, const struct stat *file, pid_t pid)
{
	struct find_memory memory = { 0 };
	const bool is_there = find_pid(ctx, file, &memory, pid);

	find_memory_free(&memory);
	return is_there;
}

/* A child that waits to be told what to do: to execute sleep, or to end. */
static pid_t start_child(const int go[2])
{
	const pid_t pid = fork();
	char c;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(go[0], &c, 1) == 1)
		execl("/bin/sleep", "sleep", "100", NULL);
	_exit(1);
}

/* It ran something else for so long that it is not looked at each time any more. */
TEST(a_process_that_execs_late_is_found)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct find_memory memory = { 0 };
	size_t most_rounds;
	struct stat file;
	int go[2];
	pid_t pid;

	assert_non_null(ctx);
	assert_int_equal(stat("/bin/sleep", &file), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = start_child(go);
	for (int i = 0; i < MANY_ROUNDS; i++)
		assert_false(find_pid(ctx, &file, &memory, pid));
	assert_true(memory.n > 0);
	most_rounds = memory.n / 256 + 2;
	assert_int_equal(write(go[1], "", 1), 1);
	while (!is_running(ctx, &file, pid))
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
TEST(the_memory_is_of_those_that_are)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct find_memory memory = { 0 };
	struct stat file;
	pid_t pid = 0;

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
		assert_int_not_equal(memory.processes[i].pid, pid);
		assert_true(i == 0 || memory.processes[i - 1].pid < memory.processes[i].pid);
	}
	find_memory_free(&memory);
	ocp_ctx_free(ctx);
}

static bool finds(struct ocp_ctx *ctx, const char *path, struct find_memory *memory, pid_t pid)
{
	struct found_processes found;
	struct stat file;
	bool is_there;

	assert_int_equal(stat(path, &file), 0);
	assert_int_equal(find_processes(ctx, &file, "name", memory, &found), 0);
	is_there = is_found(&found, pid);
	found_processes_free(&found);
	return is_there;
}

static void start_crowd(pid_t *pids)
{
	for (int i = 0; i < CROWD; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

static void end_crowd(const pid_t *pids)
{
	for (int i = 0; i < CROWD; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < CROWD; i++)
		waitpid(pids[i], NULL, 0);
}

/* All searches share one list until it expires. A process on it that has ended is not found. */
TEST(searches_share_a_list)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct find_memory memory = { 0 };
	struct stat file;
	pid_t old, new, crowd[CROWD];
	int go[2];

	assert_non_null(ctx);
	assert_int_equal(stat("/bin/sleep", &file), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	old = start_child(go);
	/* So many that it is not looked at each time. */
	start_crowd(crowd);
	for (int i = 0; i < MANY_ROUNDS; i++)
		assert_false(find_pid(ctx, &file, &memory, old));
	assert_true(memory.n > A_ROUND);
	assert_true(finds(ctx, "/proc/self/exe", &memory, old));
	assert_true(finds(ctx, "/proc/self/exe", &memory, getpid()));
	new = start_child(go);
	assert_false(finds(ctx, "/proc/self/exe", &memory, new));
	find_memory_expire(&memory);
	assert_true(finds(ctx, "/proc/self/exe", &memory, new));
	kill(new, SIGKILL);
	waitpid(new, NULL, 0);
	assert_int_equal(write(go[1], "", 1), 1);
	while (!is_running(ctx, &file, old))
		usleep(1000);
	while (find_is_its_turn(old, memory.n, A_ROUND, memory.round + 1))
		memory.round++;
	find_memory_expire(&memory);
	assert_false(finds(ctx, "/proc/self/exe", &memory, new));
	assert_false(finds(ctx, "/proc/self/exe", &memory, old));
	assert_true(finds(ctx, "/bin/sleep", &memory, old));
	kill(old, SIGKILL);
	waitpid(old, NULL, 0);
	end_crowd(crowd);
	close(go[0]);
	close(go[1]);
	find_memory_free(&memory);
	ocp_ctx_free(ctx);
}

TEST(each_has_its_turn_once)
{
	for (size_t n = 1; n < 3000; n += 500)
		for (pid_t pid = 1; pid < 100; pid++) {
			unsigned int turns = 0;

			for (unsigned int round = 7; round < 7 + n / 256 + 1; round++)
				turns += find_is_its_turn(pid, n, 256, round);
			assert_int_equal(turns, 1);
		}
	assert_true(find_is_its_turn(5, 255, 256, 0));
}

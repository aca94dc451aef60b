// SPDX-License-Identifier: MIT
/*
 * Stopping single threads of live processes: children of this test, which count in shared memory
 * what they do and what is delivered to them.
 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "change/stop/thread_stop.h"
#include "look/proc_file.h"

enum { SIGNALS = 2000, STOPS = 300, EXECS = 40, PATIENCE_MS = 20000 };

static struct shared {
	atomic_ulong turns; /* of the loop of the second thread */
	atomic_int received;
	atomic_int tid; /* of the second thread */
} * shared;

static int setup(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	return munmap(shared, sizeof(*shared));
}

ALL_TESTS(setup, teardown);

static void count_signal(int signal)
{
	(void)signal;
	shared->received++;
}

static void *turn(void *arg)
{
	(void)arg;
	shared->tid = (int)syscall(SYS_gettid);
	for (;;)
		shared->turns++;
	return NULL;
}

static void *execute_later(void *arg)
{
	shared->tid = (int)syscall(SYS_gettid);
	for (unsigned long i = 0; i < (uintptr_t)arg; i++)
		shared->turns++;
	execl("/bin/true", "true", (char *)NULL);
	_exit(1);
}

static pid_t start(void *(*body)(void *), uintptr_t arg)
{
	pid_t pid;

	shared->turns = 0;
	shared->received = shared->tid = 0;
	pid = fork();
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGRTMIN, count_signal);
		pthread_create(&thread, NULL, body, (void *)arg);
		for (;;)
			pause();
	}
	while (!shared->tid)
		usleep(100);
	return pid;
}

static void end(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static void take_registers(const struct user_regs_struct *regs, void *arg)
{
	*(struct user_regs_struct *)arg = *regs;
}

static int stop_once(pid_t pid, pid_t tid, struct user_regs_struct *regs)
{
	uint64_t ns = 0;
	const int err = thread_stop_run(pid, tid, take_registers, regs, &ns);

	assert_true(err || ns > 0);
	return err;
}

static struct proc_status status_of(pid_t tid)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct proc_status status;

	assert_int_equal(proc_status_read(ctx, tid, &status), 0);
	ocp_ctx_free(ctx);
	return status;
}

static void await_turns(unsigned long more)
{
	const unsigned long turns = shared->turns;
	const int64_t start_ms = clock_ms();

	while (shared->turns - turns < more) {
		assert_true(clock_ms() - start_ms < PATIENCE_MS);
		usleep(100);
	}
}

TEST(a_thread_stops_and_runs_again)
{
	const pid_t pid = start(turn, 0);

	for (int i = 0; i < STOPS; i++) {
		struct user_regs_struct regs = { 0 };

		assert_int_equal(stop_once(pid, shared->tid, &regs), 0);
		/* It was in its loop, and not in a system call. */
		assert_true(regs.rip && regs.rsp && (int64_t)regs.orig_rax < 0);
	}
	await_turns(1000);
	assert_int_equal(status_of(shared->tid).tracer_pid, 0);
	end(pid);
}

TEST(nothing_changes_while_a_thread_is_stopped)
{
	const pid_t pid = start(turn, 0);
	struct user_regs_struct regs;

	for (int i = 0; i < STOPS; i++)
		assert_int_equal(stop_once(pid, pid, &regs), 0);
	/* The other thread has not stopped. */
	await_turns(1000);
	/* pause(2), in which the first thread waits, is restarted. */
	assert_int_equal(status_of(pid).state, 'S');
	end(pid);
}

TEST(signals_of_a_stopped_thread_are_delivered_once)
{
	const pid_t pid = start(turn, 0);
	const int64_t start_ms = clock_ms();
	struct user_regs_struct regs;

	for (int i = 0; i < SIGNALS; i++) {
		while (syscall(SYS_tgkill, pid, shared->tid, SIGRTMIN) != 0)
			assert_int_equal(errno, EAGAIN);
		if (i % 4 == 0)
			assert_int_equal(stop_once(pid, shared->tid, &regs), 0);
	}
	while (shared->received < SIGNALS)
		assert_true(clock_ms() - start_ms < PATIENCE_MS);
	assert_int_equal(shared->received, SIGNALS);
	end(pid);
}

TEST(a_thread_of_a_stopped_process_stays_stopped)
{
	const pid_t pid = start(turn, 0);
	struct user_regs_struct regs;
	unsigned long turns;
	int status;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	while (status_of(shared->tid).state != 'T')
		usleep(100);
	assert_int_equal(stop_once(pid, shared->tid, &regs), 0);
	turns = shared->turns;
	while (status_of(shared->tid).state != 'T')
		usleep(100);
	usleep(2000);
	assert_int_equal(shared->turns, turns);
	assert_int_equal(kill(pid, SIGCONT), 0);
	await_turns(1000);
	end(pid);
}

TEST(a_thread_that_is_gone)
{
	struct user_regs_struct regs;
	const pid_t pid = start(turn, 0);

	end(pid);
	assert_int_equal(stop_once(pid, shared->tid, &regs), -ESRCH);
}

TEST(a_thread_of_another_tracer)
{
	const pid_t pid = start(turn, 0);
	struct user_regs_struct regs;
	const pid_t tracer = fork();
	int status;

	if (tracer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ptrace(PTRACE_SEIZE, shared->tid, NULL, NULL);
		for (;;)
			pause();
	}
	while (status_of(shared->tid).tracer_pid != tracer)
		usleep(100);
	assert_int_equal(stop_once(pid, shared->tid, &regs), -EPERM);
	kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, &status, 0), tracer);
	assert_int_equal(stop_once(pid, shared->tid, &regs), 0);
	end(pid);
}

/* The thread that calls execve(2) gets the id of the process: no thread stays stopped then. */
TEST(an_exec_of_a_stopped_thread_succeeds)
{
	for (int i = 0; i < EXECS; i++) {
		const pid_t pid = start(execute_later, (uintptr_t)i * 5000);
		const int64_t start_ms = clock_ms();
		struct user_regs_struct regs;
		int status = 0;

		while (stop_once(pid, shared->tid, &regs) == 0)
			;
		while (stop_once(pid, pid, &regs) == 0)
			;
		while (waitpid(pid, &status, WNOHANG) == 0) {
			assert_true(clock_ms() - start_ms < PATIENCE_MS);
			usleep(100);
		}
		assert_true(!status || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
	}
}

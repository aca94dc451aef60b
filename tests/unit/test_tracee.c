// SPDX-License-Identifier: MIT
/*
 * Stopping and releasing live processes: children of this test that count what is delivered to
 * them. Each child says over a pipe what it saw.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "look/proc_file.h"
#include "change/stop/tracee.h"

enum { SIGNALS = 2000, STOPS = 300 };

static struct ocp_ctx *ctx;

static int setup(void **state)
{
	(void)state;
	ctx = ocp_ctx_new();
	return ctx ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	ocp_ctx_free(ctx);
	return 0;
}

ALL_TESTS(setup, teardown);

static atomic_int received;
static atomic_bool finish;

static void count_signal(int signal)
{
	(void)signal;
	received++;
}

static void ask_to_finish(int signal)
{
	(void)signal;
	finish = true;
}

static void *spin(void *arg)
{
	(void)arg;
	while (!finish)
		;
	return NULL;
}

/* For the tests that wait for another tracer: nobody needs the CPU meanwhile. */
static void *rest(void *arg)
{
	(void)arg;
	while (!finish)
		usleep(1000);
	return NULL;
}

static void *end(void *arg)
{
	return arg;
}

static void *be_born_and_end(void *arg)
{
	(void)arg;
	while (!finish) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, end, NULL) == 0)
			pthread_join(thread, NULL);
	}
	return NULL;
}

/* A child with N threads that run BODY until SIGTERM, then write how many signals they got. */
static pid_t start_child(int n, void *(*body)(void *), int *result_fd)
{
	int pipe_fds[2];
	pid_t pid;

	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	if (pid == 0) {
		pthread_t threads[64];
		int count;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGRTMIN, count_signal);
		signal(SIGTERM, ask_to_finish);
		for (int i = 0; i < n; i++)
			pthread_create(&threads[i], NULL, body, NULL);
		count = -1;
		if (write(pipe_fds[1], &count, sizeof(count)) < 0)
			_exit(1);
		for (int i = 0; i < n; i++)
			pthread_join(threads[i], NULL);
		while (!finish)
			pause();
		count = received;
		_exit(write(pipe_fds[1], &count, sizeof(count)) < 0);
	}
	close(pipe_fds[1]);
	assert_int_equal(read(pipe_fds[0], &n, sizeof(n)), sizeof(n));
	*result_fd = pipe_fds[0];
	return pid;
}

/* Returns what the child wrote. */
static int finish_child(pid_t pid, int result_fd)
{
	int count = -1, status;

	kill(pid, SIGTERM);
	assert_int_equal(read(result_fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(result_fd);
	return count;
}

/* The tracee is NULL if it could not be stopped. */
static int stop(pid_t pid, struct tracee **tracee)
{
	int err = tracee_open(ctx, pid, tracee);

	if (!err)
		err = tracee_stop(*tracee);
	if (err) {
		print_message("# %s\n", ocp_error(ctx));
		tracee_close(*tracee);
		*tracee = NULL;
	}
	return err;
}

static char state_of(pid_t pid)
{
	struct proc_status status;

	assert_int_equal(proc_status_read(ctx, pid, &status), 0);
	return status.state;
}

/* A thread that was released, or has something to do, needs a CPU before its state shows it. */
static void await_state(pid_t pid, const char *states)
{
	for (int tries = 0; tries < 2000 && !strchr(states, state_of(pid)); tries++)
		usleep(10 * 1000);
	if (!strchr(states, state_of(pid)))
		fail_msg("pid %d is in state %c, not %s", (int)pid, state_of(pid), states);
}

#define RUNNING "RSD"

static void await_tracer(pid_t pid, pid_t tracer)
{
	struct proc_status status = { 0 };

	for (int tries = 0; tries < 2000 && status.tracer_pid != tracer; tries++) {
		assert_int_equal(proc_status_read(ctx, pid, &status), 0);
		usleep(10 * 1000);
	}
	assert_int_equal(status.tracer_pid, tracer);
}

TEST(all_threads_stop_and_run_again)
{
	struct tracee *tracee;
	int fd;
	pid_t pid = start_child(32, spin, &fd);

	assert_int_equal(tracee_open(ctx, pid, &tracee), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(tracee_stop(tracee), 0);
		assert_int_equal(state_of(pid), 't');
		tracee_release(tracee);
		await_state(pid, RUNNING);
	}
	tracee_close(tracee);
	finish_child(pid, fd);
}

/* Queued signals, to the process and to be taken by any of its threads: none lost, none doubled. */
TEST(signals_are_delivered_once)
{
	int fd, sent = 0;
	pid_t pid = start_child(4, spin, &fd), sender;
	struct tracee *tracee;

	sender = fork();
	if (sender == 0) {
		for (int i = 0; i < SIGNALS; i++) {
			while (sigqueue(pid, SIGRTMIN, (union sigval){ .sival_int = i }) != 0)
				sched_yield();
			if (i % 8 == 0)
				sched_yield();
		}
		_exit(0);
	}
	for (int i = 0; i < STOPS || waitpid(sender, &sent, WNOHANG) == 0; i++) {
		assert_int_equal(stop(pid, &tracee), 0);
		tracee_close(tracee);
	}
	waitpid(sender, NULL, 0);
	/* What is queued still is taken before a thread that SIGTERM ends can be joined. */
	assert_int_equal(finish_child(pid, fd), SIGNALS);
}

TEST(threads_being_born_do_not_escape)
{
	struct tracee *tracee;
	int fd;
	pid_t pid = start_child(4, be_born_and_end, &fd);

	for (int i = 0; i < STOPS; i++) {
		int err = stop(pid, &tracee);

		if (err)
			fail_msg("stop %d: %s", i, ocp_error(ctx));
		tracee_close(tracee);
	}
	finish_child(pid, fd);
}

TEST(stopped_process_stays_stopped)
{
	struct tracee *tracee;
	int fd, status;
	pid_t pid = start_child(2, spin, &fd);

	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_int_equal(stop(pid, &tracee), 0);
	tracee_close(tracee);
	await_state(pid, "T");
	kill(pid, SIGCONT);
	await_state(pid, RUNNING);
	finish_child(pid, fd);
}

/* SIGSTOP and SIGCONT that arrive meanwhile do what they would have done. */
TEST(stop_signals_keep_their_meaning)
{
	struct tracee *tracee;
	int fd;
	pid_t pid = start_child(2, spin, &fd);

	assert_int_equal(stop(pid, &tracee), 0);
	kill(pid, SIGSTOP);
	tracee_close(tracee);
	await_state(pid, "T");
	assert_int_equal(stop(pid, &tracee), 0);
	kill(pid, SIGCONT);
	tracee_close(tracee);
	await_state(pid, RUNNING);
	finish_child(pid, fd);
}

TEST(killed_while_held)
{
	struct tracee *tracee;
	int fd, status;
	pid_t pid = start_child(8, spin, &fd);

	assert_int_equal(stop(pid, &tracee), 0);
	kill(pid, SIGKILL);
	tracee_close(tracee);
	/* Its status is still there for us as its parent. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(stop(pid, &tracee), -ESRCH);
	close(fd);
}

/* However stops and the end of a child fall together. */
TEST(status_of_a_child_is_kept)
{
	enum { ROUNDS = 100 };

	for (int i = 0; i < ROUNDS; i++) {
		struct tracee *tracee;
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			usleep((useconds_t)i * 20);
			_exit(42);
		}
		do {
			assert_int_equal(tracee_open(ctx, pid, &tracee), 0);
			status = tracee_stop(tracee);
			tracee_close(tracee);
		} while (status == 0);
		assert_int_equal(status, -ESRCH);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	}
}

TEST(another_tracer_is_named)
{
	struct tracee *tracee;
	int fd;
	pid_t pid = start_child(1, rest, &fd), tracer = fork();
	char expected[64];

	if (tracer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ptrace(PTRACE_SEIZE, pid, NULL, NULL);
		for (;;)
			pause();
	}
	await_tracer(pid, tracer);
	assert_int_equal(stop(pid, &tracee), -EBUSY);
	snprintf(expected, sizeof(expected), "traced by pid %d", (int)tracer);
	assert_non_null(strstr(ocp_error(ctx), expected));
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	assert_int_equal(stop(pid, &tracee), 0);
	tracee_close(tracee);
	finish_child(pid, fd);
}

/* Asleep for a moment, then busy for longer than one that sleeps would be waited for. */
static void hold_for_a_while(void)
{
	const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);

	usleep(300 * 1000);
	while (clock_ns(CLOCK_MONOTONIC) - start_ns < 1500000000)
		;
}

/* A tracer that holds it for a moment only is waited for. */
TEST(a_short_trace_is_waited_for)
{
	struct tracee *tracee;
	pid_t pid, tracer;
	int fd, go[2];
	char c;

	assert_int_equal(pipe(go), 0);
	pid = start_child(1, rest, &fd);
	tracer = fork();
	if (tracer == 0) {
		ptrace(PTRACE_SEIZE, pid, NULL, NULL);
		if (read(go[0], &c, 1) == 1)
			hold_for_a_while();
		_exit(0);
	}
	await_tracer(pid, tracer);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(stop(pid, &tracee), 0);
	tracee_close(tracee);
	waitpid(tracer, NULL, 0);
	finish_child(pid, fd);
	close(go[0]);
	close(go[1]);
}

/* A thread of PID that is not its first. */
static pid_t second_thread(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	pid_t tid = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (atoi(entry->d_name) && atoi(entry->d_name) != pid)
			tid = atoi(entry->d_name);
	closedir(dir);
	assert_int_not_equal(tid, 0);
	return tid;
}

/* One tracer after the other has the first thread, each for less than the limit, both for more. */
TEST(tracers_that_take_turns_are_waited_for)
{
	enum { TURN_US = 700 * 1000 };
	struct tracee *tracee;
	int fd, go[2];
	pid_t pid = start_child(2, rest, &fd), other = second_thread(pid), first, second;
	int64_t start_ns;
	char c;

	assert_int_equal(pipe(go), 0);
	first = fork();
	if (first == 0) {
		ptrace(PTRACE_SEIZE, pid, NULL, NULL);
		if (read(go[0], &c, 1) == 1)
			usleep(TURN_US);
		_exit(0);
	}
	await_tracer(pid, first);
	second = fork();
	if (second == 0) {
		/* It keeps the other thread: nobody stops the process between the two turns. */
		ptrace(PTRACE_SEIZE, other, NULL, NULL);
		while (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0)
			usleep(50);
		usleep(TURN_US);
		_exit(0);
	}
	await_tracer(other, second);
	start_ns = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(stop(pid, &tracee), 0);
	assert_true(clock_ns(CLOCK_MONOTONIC) - start_ns >= 2L * TURN_US * 1000);
	tracee_close(tracee);
	waitpid(first, NULL, 0);
	waitpid(second, NULL, 0);
	finish_child(pid, fd);
	close(go[0]);
	close(go[1]);
}

/* Hold PID, and stop the process WAITER, which waits for that, for longer than the limit. */
static void hold_and_stop(pid_t pid, int waiter_fd)
{
	enum { MOMENT_US = 300 * 1000, STOPPED_US = 1500 * 1000 };
	pid_t waiter;

	ptrace(PTRACE_SEIZE, pid, NULL, NULL);
	if (read(waiter_fd, &waiter, sizeof(waiter)) != sizeof(waiter))
		_exit(1);
	usleep(MOMENT_US);
	kill(waiter, SIGSTOP);
	usleep(STOPPED_US);
	kill(waiter, SIGCONT);
	usleep(MOMENT_US);
	_exit(0);
}

/* While the waiting process is stopped, it does not see that the other tracer takes long. */
TEST(time_without_a_look_does_not_count)
{
	struct tracee *tracee;
	int fd, go[2], status;
	pid_t pid = start_child(1, rest, &fd), tracer, waiter;

	assert_int_equal(pipe(go), 0);
	tracer = fork();
	if (tracer == 0)
		hold_and_stop(pid, go[0]);
	await_tracer(pid, tracer);
	waiter = fork();
	if (waiter == 0) {
		const pid_t self = getpid();
		int err = write(go[1], &self, sizeof(self)) == sizeof(self) ? 0 : -errno;

		if (!err)
			err = stop(pid, &tracee);
		if (!err)
			tracee_close(tracee);
		_exit(-err);
	}
	assert_int_equal(waitpid(waiter, &status, 0), waiter);
	assert_int_equal(status, 0);
	assert_int_equal(waitpid(tracer, &status, WNOHANG), tracer);
	assert_int_equal(status, 0);
	finish_child(pid, fd);
	close(go[0]);
	close(go[1]);
}

static int vforked[2];

static void *vfork_and_wait(void *arg)
{
	(void)arg;
	if (vfork() == 0) {
		/* The parent's thread cannot be interrupted before this is over. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(vforked[1], "", 1) != 1)
			_exit(1);
		while (!finish)
			usleep(100 * 1000);
		_exit(0);
	}
	return NULL;
}

/* A thread that does not stop: an error in time, and the process is not left to stop later. */
TEST(thread_that_does_not_stop)
{
	struct tracee *tracee;
	pid_t pid;
	char c;
	int fd;

	assert_int_equal(pipe(vforked), 0);
	pid = start_child(1, vfork_and_wait, &fd);
	assert_int_equal(read(vforked[0], &c, 1), 1);
	assert_int_equal(stop(pid, &tracee), -ETIMEDOUT);
	assert_non_null(strstr(ocp_error(ctx), "does not stop"));
	finish_child(pid, fd);
	close(vforked[0]);
	close(vforked[1]);
}

TEST(spawned_program_waits_at_its_start)
{
	char *const argv[] = { "true", NULL };
	struct tracee *tracee;
	int status;
	pid_t pid;

	assert_int_equal(tracee_spawn(ctx, "/bin/true", argv, &tracee), 0);
	pid = tracee_pid(tracee);
	assert_int_equal(state_of(pid), 't');
	tracee_close(tracee);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(spawned_program_can_be_killed)
{
	char *const argv[] = { "true", NULL };
	struct tracee *tracee;
	pid_t pid;

	assert_int_equal(tracee_spawn(ctx, "/bin/true", argv, &tracee), 0);
	pid = tracee_pid(tracee);
	tracee_kill(tracee);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

TEST(program_that_cannot_be_run)
{
	char *const argv[] = { "x", NULL };
	struct tracee *tracee;

	assert_int_equal(tracee_spawn(ctx, "/nonexistent/x", argv, &tracee), -ENOENT);
	assert_string_equal(ocp_error(ctx),
			    "/nonexistent/x: cannot be run: No such file or directory");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* The new program gets the signal mask of the caller. */
TEST(spawned_program_keeps_the_signal_mask)
{
	char *const argv[] = { "grep", "-q", "^SigBlk:.*0200$", "/proc/self/status", NULL };
	struct tracee *tracee;
	sigset_t set, before;
	int status;
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &set, &before);
	assert_int_equal(tracee_spawn(ctx, "/bin/grep", argv, &tracee), 0);
	pid = tracee_pid(tracee);
	tracee_close(tracee);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

#define EXEC_FOR_EVER "--program=exec_for_ever"

static void *start_again(void *arg)
{
	execv("/proc/self/exe", arg);
	_exit(1);
}

/* A program of threads, one of which starts it again and again. */
PROGRAM(exec_for_ever)
{
	char *again[] = { argv[0], (char *)EXEC_FOR_EVER, NULL };
	pthread_t thread;

	for (int i = 0; i < 6; i++)
		pthread_create(&thread, NULL, idle, NULL);
	pthread_create(&thread, NULL, start_again, again);
	idle(NULL);
	return 1;
}

/* The exec waits for the traced threads' end to be seen, and PTRACE_SEIZE for the exec. */
TEST(exec_while_threads_are_seized)
{
	pid_t pid = fork();
	int stopped = 0;

	if (pid == 0) {
		execl("/proc/self/exe", "unit-tests", EXEC_FOR_EVER, NULL);
		_exit(1);
	}
	alarm(200);
	for (int i = 0; i < 60; i++) {
		struct tracee *tracee;

		assert_int_equal(tracee_open(ctx, pid, &tracee), 0);
		stopped += tracee_stop(tracee) == 0;
		tracee_close(tracee);
	}
	alarm(0);
	assert_true(stopped > 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* What the tracing thread sets for itself is not the new program's. */
TEST(spawned_program_keeps_the_timer_slack)
{
	char *const argv[] = { "grep", "-qx", "70000", "/proc/self/timerslack_ns", NULL };
	long before = prctl(PR_GET_TIMERSLACK);
	struct tracee *tracee;
	int status;
	pid_t pid;

	prctl(PR_SET_TIMERSLACK, 70000);
	assert_int_equal(tracee_spawn(ctx, "/bin/grep", argv, &tracee), 0);
	prctl(PR_SET_TIMERSLACK, before);
	pid = tracee_pid(tracee);
	tracee_close(tracee);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
}

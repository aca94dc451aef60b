// SPDX-License-Identifier: MIT
/*
 * Calls in other processes: children of this test that keep books of what they notice
 * (called_program.c). The tool that makes the calls is killed at each stop at the beginning or end
 * of each of its system calls. With WHOLE=yes there are more rounds of it, and REMOTE_PROGRAMS are
 * programs (words are separated by spaces, programs by colons) that write lines `ok` to stdout
 * while all is well.
 */
#include "unit.h"
#include "called_program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "change/inside/remote.h"
#include "look/maps.h"
#include "change/stop/patch.h"
#include "change/stop/tracee.h"
#include "look/proc_file.h"

enum { PAGES = 5 * 4096, SYSCALL_STOP = SIGTRAP | 0x80 };

/* With the sanitizer each process that starts, and each stop, takes several times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { CYCLES = 15, KILL_STEP = 31 };
#else
enum { CYCLES = 60, KILL_STEP = 5 };
#endif

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

/* ---- one cycle of the tool ------------------------------------------------------------------- */

struct cycle {
	pid_t pid;
	bool runs_code; /* called_routine is in the process too */
	struct remote_plan *plan;
	struct patcher *patcher;
	struct tracee *tracee;
	int64_t got_pid, bad, map, unmap;
	uint64_t run_pid;
	bool is_mapped, is_unmapped; /* before and after the munmap, in the stop */
};

static bool is_mapped(pid_t pid, uint64_t addr)
{
	struct maps maps;
	bool found;

	assert_int_equal(maps_read(ctx, pid, &maps), 0);
	found = maps_find(&maps, addr);
	maps_free(&maps);
	return found;
}

static int make_calls(struct cycle *c, struct remote *remote)
{
	const uint64_t none[6] = { 0 }, bad[6] = { 1234567 };
	const uint64_t map[6] = {
		0, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0
	};
	int err = remote_syscall(remote, SYS_getpid, none, &c->got_pid);

	if (!err)
		err = remote_syscall(remote, SYS_close, bad, &c->bad);
	if (!err)
		err = remote_syscall(remote, SYS_mmap, map, &c->map);
	if (!err && c->runs_code)
		err = remote_run(remote, (uint64_t)(uintptr_t)called_routine, 1, &c->run_pid);
	if (!err) {
		const uint64_t unmap[6] = { (uint64_t)c->map, PAGES };

		c->is_mapped = is_mapped(c->pid, (uint64_t)c->map);
		err = remote_syscall(remote, SYS_munmap, unmap, &c->unmap);
		c->is_unmapped = !is_mapped(c->pid, (uint64_t)c->map);
	}
	return err;
}

static int work(void *arg)
{
	struct cycle *c = arg;
	struct remote *remote;
	struct maps maps;
	int err = maps_read(ctx, c->pid, &maps), end;

	if (!err)
		err = remote_begin(c->plan, c->tracee, c->patcher, &maps, &remote);
	maps_free(&maps);
	if (err)
		return err;
	err = make_calls(c, remote);
	end = remote_end(remote);
	return err ? err : end;
}

static int run_cycle(struct cycle *c)
{
	int err = remote_plan_make(ctx, c->pid, &c->plan);

	if (!err)
		err = patcher_open(ctx, c->pid, &c->patcher);
	if (!err)
		err = tracee_open(ctx, c->pid, &c->tracee);
	/* No thread may have room just now, e.g. in a signal handler. */
	for (int i = 0; !err; i++) {
		err = tracee_run_stopped(c->tracee, work, c);
		if (err != -EAGAIN || i == 1000)
			break;
		err = 0;
		usleep(300);
	}
	tracee_close(c->tracee);
	patcher_close(c->patcher);
	remote_plan_free(c->plan);
	return err;
}

static void cycle(pid_t pid, bool runs_code)
{
	struct cycle c = { .pid = pid, .runs_code = runs_code };
	int err = run_cycle(&c);

	if (err)
		fail_msg("%d: %s", err, ocp_error(ctx));
	assert_int_equal(c.got_pid, pid);
	assert_int_equal(c.run_pid, runs_code ? pid : 0);
	assert_int_equal(c.bad, -EBADF);
	assert_true(c.map > 0 && c.is_mapped);
	assert_int_equal(c.unmap, 0);
	assert_true(c.is_unmapped);
}

static char state_of(pid_t pid)
{
	struct proc_status status;

	assert_int_equal(proc_status_read(ctx, pid, &status), 0);
	assert_int_equal(status.tracer_pid, 0);
	return status.state;
}

static void await_state(pid_t pid, char state)
{
	for (int i = 0; i < 60000 && state_of(pid) != state; i++)
		usleep(500);
	assert_int_equal(state_of(pid), state);
}

static void check_unharmed(const struct called *called)
{
	assert_int_equal(called->books->wrong_registers, 0);
	assert_int_equal(called->books->wrong_result, 0);
}

/* ---- nobody is killed ------------------------------------------------------------------------ */

static void program_notices_nothing(enum called_kind kind)
{
	struct called called = called_start(kind);

	assert_true(called_goes_on(&called, 1));
	for (int i = 0; i < CYCLES; i++) {
		if (kind == CALLED_READ || kind == CALLED_PAUSED || kind == CALLED_FUTEX)
			await_state(called.pid, 'S');
		cycle(called.pid, true);
		if (i % 8 == 0)
			assert_true(called_goes_on(&called, 1));
	}
	assert_true(called_goes_on(&called, 3));
	check_unharmed(&called);
	assert_int_equal(called.books->eintrs, 0);
	if (kind == CALLED_FUTEX)
		assert_int_equal(called.books->rounds, 0);
	called_end(&called);
}

TEST(registers_are_kept)
{
	program_notices_nothing(CALLED_REGISTERS);
}

TEST(system_calls_go_on)
{
	for (enum called_kind kind = CALLED_NANOSLEEP; kind <= CALLED_PAUSED; kind++)
		program_notices_nothing(kind);
}

TEST(threads_go_on)
{
	program_notices_nothing(CALLED_THREADS);
}

TEST(stopped_process_stays_stopped)
{
	struct called called = called_start(CALLED_REGISTERS);

	assert_true(called_goes_on(&called, 1));
	for (int i = 0; i < 20; i++) {
		kill(called.pid, SIGSTOP);
		/* At times in the stop, at times just before. */
		if (i % 2)
			await_state(called.pid, 'T');
		cycle(called.pid, true);
		await_state(called.pid, 'T');
		kill(called.pid, SIGCONT);
		assert_true(called_goes_on(&called, 1));
	}
	check_unharmed(&called);
	called_end(&called);
}

/*
 * Real-time signals are queued: each is delivered once, also those that the thread was stopped at.
 */
TEST(signals_are_delivered_once)
{
	enum { SIGNALS = 3000 };
	struct called called = called_start(CALLED_REGISTERS);
	int status;
	pid_t sender;

	assert_true(called_goes_on(&called, 1));
	sender = fork();
	if (sender == 0) {
		for (int i = 0; i < SIGNALS; i++) {
			while (sigqueue(called.pid, SIGRTMIN, (union sigval){ .sival_int = i }) !=
			       0)
				usleep(100);
			if (i % 4 == 0)
				usleep(100);
		}
		_exit(0);
	}
	while (waitpid(sender, &status, WNOHANG) == 0)
		cycle(called.pid, true);
	for (int i = 0; i < 60000 && called.books->signals < SIGNALS; i++)
		usleep(500);
	assert_int_equal(called.books->signals, SIGNALS);
	check_unharmed(&called);
	called_end(&called);
}

/* ---- what is refused ------------------------------------------------------------------------- */

TEST(seccomp_is_refused)
{
	struct remote_plan *plan;
	int fds[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* SECCOMP_MODE_STRICT: read, write, exit, sigreturn. */
		prctl(PR_SET_SECCOMP, 1);
		syscall(SYS_write, fds[1], "x", 1);
		for (;;)
			;
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	assert_int_equal(remote_plan_make(ctx, pid, &plan), -ENOTSUP);
	assert_null(plan);
	assert_non_null(strstr(ocp_error(ctx), "seccomp"));
	assert_null(strchr(ocp_error(ctx), '\n'));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
}

/* Its only thread runs on memory that is no stack: nothing is written. */
TEST(unknown_stack_is_refused)
{
	uint64_t *stack =
		mmap(NULL, 1 << 22, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cycle c = { 0 };
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		asm volatile("mov %0, %%rsp\n movq $1, (%%rsp)\n xor %%r14d, %%r14d\n 1: jmp 1b"
			     :
			     : "r"(stack + (1 << 18))
			     : "memory");
	}
	while (!((volatile uint64_t *)stack)[1 << 18])
		usleep(100);
	c.pid = pid;
	assert_int_equal(remote_plan_make(ctx, pid, &c.plan), 0);
	assert_int_equal(patcher_open(ctx, pid, &c.patcher), 0);
	assert_int_equal(tracee_open(ctx, pid, &c.tracee), 0);
	assert_int_equal(tracee_run_stopped(c.tracee, work, &c), -EAGAIN);
	assert_non_null(strstr(ocp_error(ctx), "stack"));
	for (size_t i = 0; i < 1 << 19; i++)
		assert_true(i == 1 << 18 || stack[i] == 0);
	tracee_close(c.tracee);
	patcher_close(c.patcher);
	remote_plan_free(c.plan);
	assert_int_equal(state_of(pid), 'R');
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(stack, 1 << 22);
}

/* ---- a stack that is used up ----------------------------------------------------------------- */

static struct mapping first_stack(pid_t pid)
{
	struct mapping found = { 0 };
	struct maps maps;

	assert_int_equal(maps_read(ctx, pid, &maps), 0);
	for (size_t i = 0; i < maps.n; i++)
		if (strcmp(maps.mappings[i].path, "[stack]") == 0)
			found = maps.mappings[i];
	maps_free(&maps);
	assert_true(found.start);
	return found;
}

/*
 * A child that runs at the lower end of its stack, and whose stack may have MORE bytes. It ends
 * when *RUNS is 2, with status 0 if its stack pointer and what it points to are as they were.
 */
static pid_t start_at_end_of_stack(uint32_t *runs, uint64_t more)
{
	pid_t pid = fork();

	if (pid == 0) {
		const struct mapping stack = first_stack(getpid());
		const uint64_t sp = stack.start + 256;
		struct rlimit limit;
		uint64_t now, word;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		getrlimit(RLIMIT_STACK, &limit);
		limit.rlim_cur = stack.end - stack.start + more;
		if (setrlimit(RLIMIT_STACK, &limit) != 0)
			_exit(2);
		asm volatile("	mov %%rsp, %%r12\n"
			     "	mov %3, %%rsp\n"
			     "	mov %3, (%%rsp)\n"
			     "	movl $1, (%2)\n"
			     "1:	pause\n"
			     "	cmpl $1, (%2)\n"
			     "	je 1b\n"
			     "	mov %%rsp, %0\n"
			     "	mov (%%rsp), %1\n"
			     "	mov %%r12, %%rsp\n"
			     : "=&r"(now), "=&r"(word)
			     : "r"(runs), "r"(sp)
			     : "r12", "memory", "cc");
		_exit(now != sp || word != sp);
	}
	while (__atomic_load_n(runs, __ATOMIC_ACQUIRE) != 1)
		usleep(100);
	return pid;
}

static void end_at_end_of_stack(pid_t pid, uint32_t *runs)
{
	int status;

	__atomic_store_n(runs, 2, __ATOMIC_RELEASE);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	*runs = 0;
}

/*
 * The first thread's stack gets larger, also while the program is stopped. At its limit nothing is
 * written.
 */
TEST(first_stack_grows)
{
	uint32_t *runs =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mapping before, after;
	struct cycle c = { 0 };
	pid_t pid;

	for (int stopped = 0; stopped < 2; stopped++) {
		pid = start_at_end_of_stack(runs, 1 << 20);
		before = first_stack(pid);
		if (stopped) {
			kill(pid, SIGSTOP);
			await_state(pid, 'T');
		}
		cycle(pid, true);
		after = first_stack(pid);
		assert_true(after.start < before.start && after.end == before.end);
		assert_true(before.start - after.start <= 64 * 1024);
		kill(pid, SIGCONT);
		end_at_end_of_stack(pid, runs);
	}
	pid = start_at_end_of_stack(runs, 0);
	before = first_stack(pid);
	c.pid = pid;
	assert_int_equal(run_cycle(&c), -EAGAIN);
	assert_non_null(strstr(ocp_error(ctx), "no thread has room on its stack"));
	assert_int_equal(first_stack(pid).start, before.start);
	end_at_end_of_stack(pid, runs);
	munmap(runs, 4096);
}

/* ---- the tool is killed ---------------------------------------------------------------------- */

/*
 * A child that makes one cycle, killed at its stop number N from the start on. Returns true if it
 * was killed; else it has ended with status 0.
 */
static bool killed_at(pid_t target, bool runs_code, int n)
{
	int status, ended = -1;
	pid_t tool = fork(), tid;

	if (tool == 0) {
		struct cycle c = { .pid = target, .runs_code = runs_code };

		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(run_cycle(&c) != 0);
	}
	assert_int_equal(waitpid(tool, &status, 0), tool);
	assert_int_equal(
		ptrace(PTRACE_SETOPTIONS, tool, NULL,
		       (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)),
		0);
	ptrace(PTRACE_SYSCALL, tool, NULL, NULL);
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		if (tid == tool && !WIFSTOPPED(status)) {
			ended = status;
			break;
		}
		if (!WIFSTOPPED(status)) {
			/* The target must not end. */
			assert_int_not_equal(tid, target);
			continue;
		}
		if (WSTOPSIG(status) == SYSCALL_STOP && --n == 0)
			kill(tool, SIGKILL);
		else
			ptrace(PTRACE_SYSCALL, tid, NULL, NULL);
	}
	assert_true(WIFSIGNALED(ended) ? WTERMSIG(ended) == SIGKILL : WEXITSTATUS(ended) == 0);
	return WIFSIGNALED(ended);
}

/* Its signals are not blocked. */
static void check_gets_signals(const struct called *called)
{
	const unsigned long before = called->books->signals;

	kill(called->pid, SIGRTMIN);
	for (int i = 0; i < 20000 && called->books->signals == before; i++)
		usleep(i ? 500 : 0);
	assert_int_equal(called->books->signals, before + 1);
}

/* Killed at every stop, or at one of STEP; FIRST is the first. Returns how many times. */
static int kill_everywhere(enum called_kind kind, int first, int step)
{
	struct called called = called_start(kind);
	int kills = 0;

	assert_true(called_goes_on(&called, 1));
	for (int n = first; killed_at(called.pid, true, n); n += step) {
		kills++;
		if (!called_goes_on(&called, 2))
			fail_msg("kind %d does not go on after a kill at %d", (int)kind, n);
		if (kind == CALLED_FUTEX || kind == CALLED_READ)
			await_state(called.pid, 'S');
		if (kind == CALLED_REGISTERS)
			check_gets_signals(&called);
		check_unharmed(&called);
		assert_true(called.books->eintrs <= (unsigned long)kills);
		if (kind == CALLED_FUTEX)
			assert_int_equal(called.books->rounds, 0);
		if (n % 7 == 0)
			cycle(called.pid, true);
	}
	if (kind != CALLED_NANOSLEEP && kind != CALLED_THREADS)
		assert_int_equal(called.books->eintrs, 0);
	called_end(&called);
	return kills;
}

static bool is_whole(void)
{
	const char *whole = getenv("WHOLE");

	return whole && strcmp(whole, "yes") == 0;
}

TEST(killed_at_every_system_call)
{
	const int step = is_whole() ? 1 : KILL_STEP;
	int kills = 0;

	for (int round = 0; round < (is_whole() ? 2 : 1); round++)
		for (enum called_kind kind = 0; kind < N_CALLED_KINDS; kind++)
			kills += kill_everywhere(kind, 1 + (int)kind % step, step);
	print_message("killed %d times\n", kills);
	assert_true(kills > 500 / step);
}

/* ---- other programs -------------------------------------------------------------------------- */

struct program {
	pid_t pid;
	int fd;
};

static struct program start_program(char *words)
{
	char *argv[16] = { 0 };
	struct program program;
	int fds[2], n = 0;

	for (char *word = strtok(words, " "); word && n < 15; word = strtok(NULL, " "))
		argv[n++] = word;
	assert_int_equal(pipe(fds), 0);
	program.pid = fork();
	if (program.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], STDOUT_FILENO);
		execv(argv[0], argv);
		_exit(127);
	}
	close(fds[1]);
	program.fd = fds[0];
	return program;
}

/* It writes `ok` after all that it has written so far. */
static void check_program(const struct program *program, int at)
{
	struct pollfd poll_fd = { .fd = program->fd, .events = POLLIN };
	char text[65536];
	ssize_t n;

	for (int i = 0; i < 2; i++) {
		do {
			if (poll(&poll_fd, 1, 60000) != 1)
				fail_msg("silence after a kill at %d", at);
			n = read(program->fd, text, sizeof(text));
			if (n <= 0)
				fail_msg("has ended after a kill at %d", at);
			for (ssize_t j = 0; j < n; j++)
				if (!strchr("ok\n", text[j]))
					fail_msg("a wrong word after a kill at %d", at);
		} while (n == sizeof(text));
	}
}

TEST(other_programs_survive)
{
	char *programs = getenv("REMOTE_PROGRAMS");
	char *save = NULL;

	if (!is_whole() || !programs)
		return;
	programs = strdup(programs);
	for (char *words = strtok_r(programs, ":", &save); words;
	     words = strtok_r(NULL, ":", &save)) {
		struct program program = start_program(words);
		int kills = 0;

		check_program(&program, 0);
		while (killed_at(program.pid, false, kills + 1))
			check_program(&program, ++kills);
		print_message("%s: killed %d times\n", words, kills);
		assert_true(kills > 50);
		kill(program.pid, SIGKILL);
		waitpid(program.pid, NULL, 0);
		close(program.fd);
	}
	free(programs);
}

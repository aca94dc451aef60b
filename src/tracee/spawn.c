// SPDX-License-Identifier: MIT
/*
 * Starting a program under ptrace(2), up to the moment before any of its code runs.
 *
 *	fork		the child waits on a pipe; if this process dies, the child reads the end of
 *			the pipe and exits
 *	seize, go	with PTRACE_O_EXITKILL: a half started program must not outlive this process
 *	exec		the child stops with the new program and its dynamic linker mapped
 *	load		the dynamic linker maps the shared libraries; a debug register stops it when
 *			the list is complete (rtld.c), before it runs a constructor
 *
 * The debug register takes the place of a breakpoint: no byte of the process is changed. If exec
 * fails, the child writes the errno to a second pipe; a successful exec closes that pipe.
 *
 * The functions below name the tests that cover them: of test_tracee and test_spawn (tests/unit)
 * and of trace.sh (tests/e2e).
 */
#include "tracee/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "tracee/rtld.h"

/* In the child: wait until the parent holds us, then become the program. */
static _Noreturn void run_child(const struct spawn *spawn, int go_fd, int error_fd)
{
	struct interruptions interruptions = { 0 };
	int err;
	char go;

	sigprocmask(SIG_SETMASK, &spawn->mask, NULL);

	/* The end of the pipe instead of a byte: the parent died. */
	if (read(go_fd, &go, 1) == 1) {
		execv(spawn->path, spawn->argv);
		err = errno;
		while (write(error_fd, &err, sizeof(err)) < 0 && is_interrupted(&interruptions))
			;
	}
	_exit(127);
}

/*
 * Tests: program_that_cannot_be_run; a_child_that_cannot_say_why; trace.sh:
 * test_what_cannot_be_started.
 */
static int exec_error(struct ocp_ctx *ctx, const char *path, int error_fd)
{
	int err;

	if (read(error_fd, &err, sizeof(err)) != sizeof(err))
		return ctx_error(ctx, -ESRCH, "%s: was killed before it started", path);
	ctx_error(ctx, -err, "%s: cannot be run: %s", path, strerror(err));
	if (err == ENOENT && strchr(path, '/') == NULL)
		ctx_hint(ctx, "give a path, such as ./%s", path);
	/* EACCES would mean a missing privilege; here the file is a directory or not executable. */
	return err == EACCES ? -ENOEXEC : -err;
}

/* Let the child run up to the end of its exec. Test: spawned_program_waits_at_its_start. */
static int run_to_exec(struct spawn *spawn, int error_fd)
{
	struct interruptions interruptions = { 0 };
	const char *path = spawn->path;

	for (;;) {
		int status, signal = 0;

		if (waitpid(spawn->pid, &status, __WALL) < 0) {
			if (is_interrupted(&interruptions))
				continue;
			return ctx_error(spawn->ctx, -errno, "%s: lost: %s", path, strerror(errno));
		}
		/* The exec failed, or the child was killed. */
		if (!WIFSTOPPED(status)) {
			spawn->pid = 0;
			return exec_error(spawn->ctx, path, error_fd);
		}
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
			return 0;
		/* Without an event: a signal from outside, which the child shall get. */
		if (status >> 16 == 0)
			signal = WSTOPSIG(status);
		ptrace(PTRACE_CONT, spawn->pid, NULL, (void *)(uintptr_t)signal);
	}
}

/* ---- from the end of the exec to the first code of the program ------------------------------- */

/* Debug register N of a stopped tracee: offset for PTRACE_POKEUSER, <sys/user.h>. */
static long set_debug_register(pid_t tid, int n, uint64_t value)
{
	size_t off = offsetof(struct user, u_debugreg) + (size_t)n * sizeof(long);

	return ptrace(PTRACE_POKEUSER, tid, (void *)off, (void *)(uintptr_t)value);
}

/*
 * Intel SDM 3B, 18.2: DR7 bit 0 arms DR0 for this thread, for execution; DR6 bit 0 says it fired.
 */
enum { DR_ADDRESS = 0, DR_STATUS = 6, DR_CONTROL = 7, DR_ARM_0 = 1 };

/*
 * Returns 1, 0 or a negative errno. PTRACE_PEEKDATA works also where process_vm_readv(2) is
 * forbidden.
 */
static int is_consistent(pid_t pid, const struct rtld *rtld)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, pid, (void *)(uintptr_t)rtld->state_addr, NULL);
	return errno ? -errno : (int)word == RTLD_CONSISTENT;
}

static int lost(const struct spawn *spawn, int err)
{
	return ctx_error(spawn->ctx, err, "%s: lost: %s", spawn->path, strerror(-err));
}

static int ended_early(const struct spawn *spawn, int status)
{
	if (WIFSIGNALED(status)) {
		ctx_error(spawn->ctx, -ESRCH,
			  "%s: was killed by signal %d while its libraries were loaded",
			  spawn->path, WTERMSIG(status));
		if (WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGSEGV)
			ctx_hint(spawn->ctx, "the program or one of its libraries may be damaged");
		return -ESRCH;
	}
	return ctx_error(spawn->ctx, -ESRCH,
			 "%s: ended with status %d while its libraries were loaded", spawn->path,
			 WEXITSTATUS(status));
}

/*
 * Run until the dynamic linker says that its list of files is complete. It calls the function with
 * the debug register twice: before it maps the libraries (r_state RT_ADD) and after it.
 * Test: trace.sh: test_constructors_of_shared_libraries.
 */
static int run_to_consistent(struct spawn *spawn, const struct rtld *rtld)
{
	int status, signal = 0, found;

	for (;;) {
		if (ptrace(PTRACE_CONT, spawn->pid, NULL, (void *)(uintptr_t)signal) != 0 ||
		    waitpid(spawn->pid, &status, __WALL) < 0)
			return lost(spawn, -errno);
		if (!WIFSTOPPED(status)) {
			spawn->pid = 0;
			return ended_early(spawn, status);
		}
		/* Another signal than SIGTRAP is the program's: pass it on. */
		signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
		if (signal != SIGTRAP)
			continue;
		signal = 0;
		found = is_consistent(spawn->pid, rtld);
		if (found)
			return found < 0 ? lost(spawn, found) : 0;
	}
}

/*
 * Let a new program load its shared libraries, so that their probes can be switched too, and stop
 * it before their constructors run.
 */
static int run_to_loaded(struct spawn *spawn)
{
	struct rtld rtld = { 0 };
	int found = rtld_find(spawn->ctx, spawn->pid, &rtld);

	if (found <= 0)
		return found;
	if (set_debug_register(spawn->pid, DR_ADDRESS, rtld.notify_addr) != 0 ||
	    set_debug_register(spawn->pid, DR_CONTROL, DR_ARM_0) != 0) {
		ctx_log(spawn->ctx, OCP_LOG_WARN,
			"%s: probes of shared libraries are not switched: cannot set a debug "
			"register: %s",
			spawn->path, strerror(errno));
		return 0;
	}
	found = run_to_consistent(spawn, &rtld);
	if (found)
		return found;
	/* A register that stays armed would kill the program at the next dlopen(3). */
	if (set_debug_register(spawn->pid, DR_CONTROL, 0) != 0 ||
	    set_debug_register(spawn->pid, DR_ADDRESS, 0) != 0 ||
	    set_debug_register(spawn->pid, DR_STATUS, 0) != 0)
		return lost(spawn, -errno);
	return 0;
}

static int start_child(struct spawn *spawn, int go_fd, int error_fd)
{
	const char *path = spawn->path;
	/* A half started program, with a debug register set, must not outlive us. */
	uintptr_t options = PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	int err;

	if (ptrace(PTRACE_SEIZE, spawn->pid, NULL, (void *)options) != 0)
		return ctx_error(spawn->ctx, -errno, "%s: cannot trace it: %s", path,
				 strerror(errno));
	if (write(go_fd, "g", 1) != 1)
		return ctx_error(spawn->ctx, -errno, "%s: cannot start it: %s", path,
				 strerror(errno));
	err = run_to_exec(spawn, error_fd);
	if (!err)
		err = run_to_loaded(spawn);
	return err;
}

int spawn_stopped(struct spawn *spawn)
{
	int go[2], error[2], err;

	if (pipe2(go, O_CLOEXEC) != 0)
		return ctx_error(spawn->ctx, -errno, "%s: pipe: %s", spawn->path, strerror(errno));
	if (pipe2(error, O_CLOEXEC) != 0) {
		err = ctx_error(spawn->ctx, -errno, "%s: pipe: %s", spawn->path, strerror(errno));
		close(go[0]);
		close(go[1]);
		return err;
	}
	spawn->pid = fork();
	if (spawn->pid == 0) {
		close(go[1]);
		run_child(spawn, go[0], error[1]);
	}
	close(go[0]);
	close(error[1]);
	if (spawn->pid < 0) {
		spawn->pid = 0;
		err = ctx_error(spawn->ctx, -errno, "%s: fork: %s", spawn->path, strerror(errno));
	} else {
		err = start_child(spawn, go[1], error[0]);
	}
	close(go[1]);
	close(error[0]);
	if (err && spawn->pid)
		spawn_kill(spawn->pid);
	return err;
}

void spawn_kill(pid_t pid)
{
	struct interruptions interruptions = { 0 };

	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && is_interrupted(&interruptions))
		;
}

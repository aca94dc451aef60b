// SPDX-License-Identifier: MIT
/*
 * Starting a program under ptrace(2), up to the moment before any of its code runs.
 *
 *	fork		the child waits on a pipe; if this process dies, the child reads the end of
 *			the pipe and exits
 *	seize, go	with PTRACE_O_EXITKILL: a half started program must not outlive this process
 *	exec		the child stops with the new program and its dynamic linker mapped
 *	load		the dynamic linker maps the shared libraries; a breakpoint stops it when the
 *			list is complete, before it runs a constructor
 *
 * The breakpoint is an int3 in the child's private copy of the dynamic linker. The child cannot
 * outlive this process while the int3 is there. A debug register would change no byte, but some
 * hypervisors (PVM, seen on Linux 6.18) accept the register and never raise its trap.
 *
 * If exec fails, the child writes the errno to a second pipe; a successful exec closes that pipe.
 *
 * The functions below name the tests that cover them: of test_tracee and test_spawn (tests/unit)
 * and of trace.sh (tests/e2e).
 */
#include "change/stop/spawn.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "elf/symbols.h"
#include "look/maps.h"
#include "change/stop/patch.h"
#include "look/proc_file.h"

/* ---- the dynamic linker --------------------------------------------------------------------- */

/*
 * The protocol between dynamic linkers and debuggers (<link.h>). Before and after the linker maps
 * or unmaps files, it sets _r_debug.r_state and calls an empty function, _dl_debug_state. At the
 * start of a program, the second call comes when all shared libraries are mapped and relocated, and
 * before any constructor runs. glibc exports the symbols _r_debug and _dl_debug_state.
 *
 * Test: tests/e2e/trace.sh: test_constructors_of_shared_libraries.
 */

/* Addresses of the dynamic linker in the process. */
struct rtld {
	/* the function that the linker calls before and after it maps files */
	uint64_t notify_addr;
	/* address of an int: RTLD_CONSISTENT when the list of files is complete */
	uint64_t state_addr;
};

enum { RTLD_CONSISTENT = 0 }; /* RT_CONSISTENT of <link.h> */

static int find_symbols(struct ocp_ctx *ctx, int fd, const char *path, uint64_t base,
			struct rtld *rtld)
{
	struct elf_file *elf;
	uint64_t notify_va, debug_va;
	int found = elf_file_open(ctx, fd, path, &elf);

	if (found < 0)
		return found;
	found = dynsym_find(elf, "_dl_debug_state", &notify_va);
	if (found > 0)
		found = dynsym_find(elf, "_r_debug", &debug_va);
	if (found > 0) {
		/* Linkers are linked at address 0, so AT_BASE is the load bias. */
		rtld->notify_addr = base + notify_va;
		rtld->state_addr = base + debug_va + offsetof(struct r_debug, r_state);
	}
	elf_file_close(elf);
	return found;
}

/*
 * Find the addresses of RTLD in process PID, which is at the start of its program. Return 1 if they
 * are found; 0 if the program has no dynamic linker, or the linker does not export the symbols; or
 * a negative errno.
 */
static int rtld_find(struct ocp_ctx *ctx, pid_t pid, struct rtld *rtld)
{
	const struct mapping *mapping;
	struct maps maps;
	uint64_t base;
	int fd, found;

	found = auxv_read(ctx, pid, AT_BASE, &base);
	if (found || !base)
		return found;
	found = maps_read(ctx, pid, &maps);
	if (found)
		return found;
	mapping = maps_find(&maps, base);
	fd = mapping && mapping->inode ? maps_open_file(pid, mapping) : -1;
	if (fd >= 0) {
		found = find_symbols(ctx, fd, mapping->path, base, rtld);
		close(fd);
	}
	maps_free(&maps);
	return found;
}

/* ---- the program ---------------------------------------------------------------------------- */

/* In the child: wait until the parent traces us, then execute the program. */
static _Noreturn void run_child(const struct spawn *spawn, int go_fd, int error_fd)
{
	struct interruptions interruptions = { 0 };
	int err;
	char go;

	sigprocmask(SIG_SETMASK, &spawn->mask, NULL);

	/* End of file instead of a byte means that the parent died. */
	if (read(go_fd, &go, 1) == 1) {
		execv(spawn->path, spawn->argv);
		err = errno;
		while (write(error_fd, &err, sizeof(err)) < 0 && is_interrupted(&interruptions))
			;
	}
	_exit(127);
}

/*
 * Explain why the exec failed. The child has written the errno of execv(3) to ERROR_FD, or nothing
 * if it was killed. Return a negative errno. Tests: program_that_cannot_be_run;
 * a_child_that_cannot_say_why; trace.sh: test_what_cannot_be_started.
 */
static int exec_error(struct ocp_ctx *ctx, const char *path, int error_fd)
{
	int err;

	if (read(error_fd, &err, sizeof(err)) != sizeof(err))
		return ctx_error(ctx, -ESRCH, "%s: was killed before it started", path);
	ctx_error(ctx, -err, "%s: cannot be run: %s", path, strerror(err));
	if (err == ENOENT && strchr(path, '/') == NULL)
		ctx_hint(ctx, "give a path, such as ./%s", path);
	/*
	 * Do not return -EACCES, which callers take for a missing privilege: here the file is a
	 * directory or not executable.
	 */
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
		/*
		 * A stop without an event: somebody has sent a signal. Pass the signal on to the
		 * child.
		 */
		if (status >> 16 == 0)
			signal = WSTOPSIG(status);
		ptrace(PTRACE_CONT, spawn->pid, NULL, (void *)(uintptr_t)signal);
	}
}

/* ---- from the end of the exec to the first code of the program ------------------------------ */

enum { INT3 = 0xcc };

struct breakpoint {
	uint64_t addr;
	uint8_t byte; /* the byte that the int3 replaces */
};

/*
 * Return 1 if the linker's list of files is complete, 0 if not, or a negative errno. Uses
 * PTRACE_PEEKDATA, which works even where process_vm_readv(2) is forbidden.
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
 * Resume the child by REQUEST (PTRACE_CONT or PTRACE_SINGLESTEP) until its next SIGTRAP. All other
 * signals belong to the program and are passed on.
 */
static int run_to_trap(struct spawn *spawn, enum __ptrace_request request)
{
	int status, signal = 0;

	for (;;) {
		if (ptrace(request, spawn->pid, NULL, (void *)(uintptr_t)signal) != 0 ||
		    waitpid(spawn->pid, &status, __WALL) < 0)
			return lost(spawn, -errno);
		if (!WIFSTOPPED(status)) {
			spawn->pid = 0;
			return ended_early(spawn, status);
		}
		signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
		if (signal == SIGTRAP)
			return 0;
	}
}

static int write_byte(const struct spawn *spawn, uint64_t addr, uint8_t old, uint8_t new)
{
	const struct patch_write write = {
		.addr = addr, .old = old, .new = new, .bytes = 1, .phase = PATCH_SITES_ON
	};

	return patch_apply(spawn->ctx, spawn->pid, &write, 1);
}

/*
 * Run to the int3 of BREAKPOINT. Then restore the byte under the int3, and move the child back to
 * the address of the int3, so that it executes the original instruction next.
 */
static int run_to_breakpoint(struct spawn *spawn, const struct breakpoint *breakpoint)
{
	void *const pc = (void *)offsetof(struct user, regs.rip);
	long addr;
	int err;

	do {
		err = run_to_trap(spawn, PTRACE_CONT);
		if (err)
			return err;
		errno = 0;
		addr = ptrace(PTRACE_PEEKUSER, spawn->pid, pc, NULL);
		if (errno)
			return lost(spawn, -errno);
	} while ((uint64_t)addr != breakpoint->addr + 1);
	if (ptrace(PTRACE_POKEUSER, spawn->pid, pc, (void *)(uintptr_t)breakpoint->addr) != 0)
		return lost(spawn, -errno);
	return write_byte(spawn, breakpoint->addr, INT3, breakpoint->byte);
}

/*
 * Run until the dynamic linker reports that its list of files is complete. The linker calls the
 * function at BREAKPOINT twice: before it maps the libraries (r_state RT_ADD) and after it has
 * mapped them.
 * Test: trace.sh: test_constructors_of_shared_libraries.
 */
static int run_to_consistent(struct spawn *spawn, const struct rtld *rtld,
			     const struct breakpoint *breakpoint)
{
	for (;;) {
		int err = run_to_breakpoint(spawn, breakpoint), found;

		if (err)
			return err;
		found = is_consistent(spawn->pid, rtld);
		if (found)
			return found < 0 ? lost(spawn, found) : 0;
		err = run_to_trap(spawn, PTRACE_SINGLESTEP);
		if (!err)
			err = write_byte(spawn, breakpoint->addr, breakpoint->byte, INT3);
		if (err)
			return err;
	}
}

/*
 * Warn that no breakpoint was set: the program is started, but this tool cannot know when its
 * libraries are loaded.
 */
static void warn_not_loaded(const struct spawn *spawn, const char *reason)
{
	ctx_log(spawn->ctx, OCP_LOG_WARN, "%s: probes of shared libraries are not switched: %s",
		spawn->path, reason);
}

/*
 * Let a new program load its shared libraries, so that their probes can be switched too, and stop
 * the program before the constructors of the libraries run.
 */
static int run_to_loaded(struct spawn *spawn)
{
	struct rtld rtld = { 0 };
	struct breakpoint breakpoint;
	int found = rtld_find(spawn->ctx, spawn->pid, &rtld);
	long word;

	if (found <= 0)
		return found;
	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, spawn->pid, (void *)(uintptr_t)rtld.notify_addr, NULL);
	if (errno)
		return lost(spawn, -errno);
	breakpoint = (struct breakpoint){ rtld.notify_addr, (uint8_t)word };
	if (breakpoint.byte == INT3) {
		warn_not_loaded(spawn, "another tracer has a uprobe on _dl_debug_state");
		return 0;
	}
	if (write_byte(spawn, breakpoint.addr, breakpoint.byte, INT3) != 0) {
		warn_not_loaded(spawn, ocp_error(spawn->ctx));
		return 0;
	}
	return run_to_consistent(spawn, &rtld, &breakpoint);
}

static int start_child(struct spawn *spawn, int go_fd, int error_fd)
{
	const char *path = spawn->path;
	/* A half started program, with an int3 in it, must not outlive us. */
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

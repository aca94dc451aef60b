// SPDX-License-Identifier: MIT
/*
 * Remote calls that the process survives, at whatever moment we are killed.
 *
 * All threads of the process are stopped, and one of them makes the calls. The registers of this
 * thread are kept here and in a signal frame far below its stack pointer. The steps, in this order:
 *
 *	1. write the frame	to unused memory
 *	2. set the signal mask	to the thread's own: sigsuspend(2) and ppoll(2) replace it
 *	3. set the registers	rip: the `ret` of a `syscall; ret`, rsp: the frame
 *	4. block all signals	of the thread
 *	5. for each call	rip: the `syscall; ret`; run to its end
 *	6. to an event stop	as tracee_run_stopped() stops a thread
 *	7. set mask, registers	as they were
 *
 * If we are killed before 3 or after 7, the thread is unchanged. In between, the kernel detaches
 * the thread, which ends the call, returns to the restorer, and rt_sigreturn(2) brings back
 * registers, signal mask and vector registers from the frame. A system call that the stop had
 * interrupted starts again, except one that only the kernel can continue (nanosleep, poll): it ends
 * with EINTR. So a thread that is not in one of these calls is preferred.
 *
 * Without step 2, a signal that only sigsuspend(2) lets in could be delivered at the frame: its
 * handler would run, and sigsuspend would start again and wait for a signal that has already come.
 *
 * Step 7 is done in an event stop, because the kernel restarts a system call only after such a
 * stop. The mask is set before the registers: if the tracer dies in between and a signal is
 * delivered, the thread is still at the frame, below which the stack is free.
 *
 * Only a thread without a seccomp filter is taken, since a filter could kill the process for a
 * remote call. PTRACE_O_SUSPEND_SECCOMP would not help: it ends when we are killed, perhaps in the
 * middle of a call.
 */
#include "inside/remote.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "inside/gadgets.h"
#include "inside/signal_frame.h"
#include "inside/stack_room.h"
#include "tracee/proc_file.h"

enum {
	USER_CS_64 = 0x33, /* __USER_CS of arch/x86 */
	MAX_RESTARTS = 100,
	MASK_BYTES = 8,
	SYSCALL_INSN_BYTES = 2,
	FIRST_ERESTART = 512, /* -512 to -516: never seen by a program */
	LAST_ERESTART = 516,
};

struct remote_plan {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct gadgets gadgets;
};

struct remote {
	const struct remote_plan *plan;
	struct tracee *tracee;
	pid_t tid;
	struct thread_state before;
	struct signal_frame frame;
	bool has_run; /* the thread has left the stop in which it was found */
	bool has_run_code;
	bool is_lost; /* the thread has ended, or does not stop */
};

/* ---- what is found while the process runs ---------------------------------------------------- */

/* Return -ENOTSUP with a message if PID does not run a 64-bit ELF program. */
static int check_class(struct ocp_ctx *ctx, pid_t pid)
{
	unsigned char ident[EI_NIDENT] = { 0 };
	const int fd = proc_open_exe(pid);
	ssize_t n;

	if (fd < 0)
		return proc_why_no_access(ctx, pid, -fd);
	n = read(fd, ident, sizeof(ident));
	close(fd);
	if (n == sizeof(ident) && ident[EI_CLASS] == ELFCLASS64)
		return 0;
	return ctx_error(ctx, -ENOTSUP, "pid %d: not a 64-bit program", (int)pid);
}

/*
 * Return why thread TID cannot be called into, according to /proc/TID/status; NULL if that file
 * gives no reason.
 */
static const char *status_forbids(struct ocp_ctx *ctx, pid_t tid)
{
	const char *why = NULL, *field;
	char *text;

	if (proc_file_read(ctx, tid, "status", &text, NULL) != 0)
		return "its status cannot be read";
	field = strstr(text, "\nSeccomp:");
	if (field && strtol(field + strlen("\nSeccomp:"), NULL, 10) != 0)
		why = "it has a seccomp filter, which could kill it for a system call of ours";
	field = strstr(text, "\nx86_Thread_features:");
	if (field && memmem(field + 1, strcspn(field + 1, "\n"), "shstk", strlen("shstk")))
		why = "it has a shadow stack (CET)";
	free(text);
	return why;
}

int remote_plan_make(struct ocp_ctx *ctx, pid_t pid, struct remote_plan **out)
{
	struct remote_plan *plan = calloc(1, sizeof(*plan));
	const char *why;
	int err;

	*out = NULL;
	if (!plan)
		return ctx_no_memory(ctx);
	plan->ctx = ctx;
	plan->pid = pid;
	err = check_class(ctx, pid);
	/*
	 * Threads mostly inherit filter and shadow stack from the first one; remote_begin() checks
	 * the thread that it chooses.
	 */
	why = err ? NULL : status_forbids(ctx, pid);
	if (why)
		err = ctx_error(ctx, -ENOTSUP, "pid %d: cannot be called into: %s", (int)pid, why);
	if (!err)
		err = gadgets_find(ctx, pid, &plan->gadgets);
	if (err) {
		free(plan);
		return err;
	}
	*out = plan;
	return 0;
}

void remote_plan_free(struct remote_plan *plan)
{
	free(plan);
}

/* ---- choosing a thread ----------------------------------------------------------------------- */

struct candidate {
	pid_t tid;
	/* what is lost if we are killed: 0 nothing, 1 a signal, 2 a system call (EINTR), 3 both */
	int cost;
	uint64_t top;
	struct user_regs_struct regs;
};

static bool read_memory(pid_t pid, uint64_t addr, void *bytes, size_t n)
{
	const struct iovec local = { bytes, n }, remote = { (void *)(uintptr_t)addr, n };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/*
 * Return true if the thread is in a restartable sequence (rseq(2)), or if its struct rseq cannot be
 * read. If its registers were changed there, the kernel would see a thread that has left the
 * sequence, and would not abort the sequence.
 */
static bool is_in_rseq(pid_t pid, pid_t tid, uint64_t rip)
{
	struct __ptrace_rseq_configuration rseq = { 0 };
	struct {
		uint32_t version, flags;
		uint64_t start_ip, bytes, abort_ip;
	} section; /* struct rseq_cs */
	uint64_t addr;

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(rseq), &rseq) <= 0 ||
	    !rseq.rseq_abi_pointer)
		return false;
	if (!read_memory(pid, rseq.rseq_abi_pointer + sizeof(uint64_t), &addr, sizeof(addr)))
		return true;
	if (!addr)
		return false;
	return !read_memory(pid, addr, &section, sizeof(section)) ||
	       rip - section.start_ip < section.bytes;
}

/* Make the slower checks. Return why thread C cannot be used, or NULL if it can be. */
static const char *forbids(const struct remote_plan *plan, const struct candidate *c)
{
	const char *why = status_forbids(plan->ctx, c->tid);
	uint64_t shadow_stack;
	struct iovec iov = { &shadow_stack, sizeof(shadow_stack) };
	enum { NT_SHADOW_STACK = 0x204 }; /* NT_X86_SHSTK of linux/elf.h: Linux 6.6 */

	if (!why && ptrace(PTRACE_GETREGSET, c->tid, NT_SHADOW_STACK, &iov) == 0)
		why = "it has a shadow stack (CET)";
	if (!why && is_in_rseq(plan->pid, c->tid, c->regs.rip))
		why = "it is in a restartable sequence";
	return why;
}

static void consider_thread(const struct remote_plan *plan, const struct maps *maps, pid_t tid,
			    int signal, struct candidate *best, const char **why)
{
	struct candidate c = { .tid = tid };
	const char *no;

	/* SIGSTOP cannot be blocked, and must not be lost. */
	if (signal == SIGSTOP || ptrace(PTRACE_GETREGS, tid, NULL, &c.regs) != 0 ||
	    c.regs.cs != USER_CS_64)
		return;
	c.top = stack_room_find(plan->pid, maps, &c.regs);
	if (!c.top)
		return;
	c.cost = 2 * signal_frame_ends_call(&c.regs) + (signal != 0);
	if (best->tid && best->cost <= c.cost)
		return;
	no = forbids(plan, &c);
	if (no)
		*why = no;
	else
		*best = c;
}

static int choose_thread(const struct remote_plan *plan, struct tracee *tracee,
			 const struct maps *maps, struct candidate *best)
{
	const char *why = "the stack of no thread has room for a signal frame";

	*best = (struct candidate){ 0 };
	if (!gadgets_are_there(plan->pid, &plan->gadgets))
		return ctx_error(plan->ctx, -ESRCH, "pid %d: has made an exec", (int)plan->pid);
	for (size_t i = 0; i < tracee_n_threads(tracee) && !(best->tid && !best->cost); i++) {
		int signal;
		pid_t tid = tracee_tid(tracee, i, &signal);

		consider_thread(plan, maps, tid, signal, best, &why);
	}
	if (best->tid)
		return 0;
	return ctx_error(plan->ctx, -EAGAIN, "pid %d: cannot be called into now: %s",
			 (int)plan->pid, why);
}

/* ---- the registers of the thread ------------------------------------------------------------- */

static int ptrace_error(const struct remote *remote, const char *what)
{
	const int err = errno;

	return ctx_error(remote->plan->ctx, -err, "pid %d: cannot %s of thread %d: %s",
			 (int)remote->plan->pid, what, (int)remote->tid, strerror(err));
}

static int save(struct remote *remote)
{
	struct thread_state *before = &remote->before;
	struct iovec iov = { before->xstate, sizeof(before->xstate) };

	if (ptrace(PTRACE_GETSIGMASK, remote->tid, MASK_BYTES, &before->mask) != 0 ||
	    ptrace(PTRACE_GETREGSET, remote->tid, NT_X86_XSTATE, &iov) != 0)
		return ptrace_error(remote, "read the registers");
	before->xstate_bytes = iov.iov_len;
	return 0;
}

/*
 * Set rip and the argument registers. From here on, if we are killed, the frame restores the
 * thread.
 */
static int set_registers(const struct remote *remote, uint64_t rip, long number,
			 const uint64_t args[6])
{
	struct user_regs_struct regs = remote->before.regs;
	enum { TRAP_FLAG = 0x100, DIRECTION_FLAG = 0x400 };

	regs.rip = rip;
	regs.rsp = remote->frame.addr;
	regs.rax = (uint64_t)number;
	regs.orig_rax = (uint64_t)-1; /* not in a system call: there is nothing to restart */
	regs.eflags &= ~(uint64_t)(TRAP_FLAG | DIRECTION_FLAG);
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	if (ptrace(PTRACE_SETREGS, remote->tid, NULL, &regs) != 0)
		return ptrace_error(remote, "set the registers");
	return 0;
}

static int block_signals(const struct remote *remote, uint64_t mask)
{
	if (ptrace(PTRACE_SETSIGMASK, remote->tid, MASK_BYTES, &mask) != 0)
		return ptrace_error(remote, "block the signals");
	return 0;
}

/* Restore the signal mask, then the registers: see the top of this file for the order. */
static int restore(struct remote *remote)
{
	struct thread_state *before = &remote->before;
	struct iovec iov = { before->xstate, before->xstate_bytes };

	if (remote->has_run_code && ptrace(PTRACE_SETREGSET, remote->tid, NT_X86_XSTATE, &iov) != 0)
		return ptrace_error(remote, "restore the registers");
	if (ptrace(PTRACE_SETSIGMASK, remote->tid, MASK_BYTES, &before->mask) != 0 ||
	    ptrace(PTRACE_SETREGS, remote->tid, NULL, &before->regs) != 0)
		return ptrace_error(remote, "restore the registers");
	return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Write the frame of thread C, then point the registers to it. On failure, restore the thread. */
static int enter(struct remote *remote, struct patcher *patcher, const struct candidate *c)
{
	const struct remote_plan *plan = remote->plan;
	const uint64_t none[6] = { 0 };
	int err;

	remote->tid = c->tid;
	remote->before.regs = c->regs;
	err = save(remote);
	if (err)
		return err;
	if (!signal_frame_make(&remote->before, c->top, plan->gadgets.restorer, &remote->frame))
		return ctx_error(plan->ctx, -ENOTSUP,
				 "pid %d: the vector registers of this processor are not known",
				 (int)plan->pid);
	err = patcher_write_unused(patcher, remote->frame.addr, remote->frame.image,
				   remote->frame.bytes);
	if (err)
		return ctx_error(plan->ctx, err, "pid %d: cannot write to a stack: %s",
				 (int)plan->pid, strerror(-err));
	err = block_signals(remote, remote->before.mask);
	if (!err)
		err = set_registers(remote, plan->gadgets.syscall_ret + SYSCALL_INSN_BYTES, 0,
				    none);
	if (!err)
		err = block_signals(remote, UINT64_MAX);
	if (err)
		restore(remote);
	return err;
}

int remote_begin(const struct remote_plan *plan, struct tracee *tracee, struct patcher *patcher,
		 const struct maps *maps, struct remote **out)
{
	struct remote *remote = calloc(1, sizeof(*remote));
	struct candidate chosen;
	int err;

	*out = NULL;
	if (!remote)
		return ctx_no_memory(plan->ctx);
	remote->plan = plan;
	remote->tracee = tracee;
	err = choose_thread(plan, tracee, maps, &chosen);
	if (!err)
		err = enter(remote, patcher, &chosen);
	if (err) {
		free(remote);
		return err;
	}
	*out = remote;
	return 0;
}

uint64_t remote_scratch(const struct remote *remote)
{
	return remote->frame.addr - REMOTE_SCRATCH_BYTES;
}

static int step_remote(struct remote *remote, enum thread_step to)
{
	int err = tracee_step(remote->tracee, remote->tid, to);

	remote->has_run = true;
	if (err)
		remote->is_lost = true;
	return err;
}

/* Run the thread to the end of the next system call that it makes at the `syscall; ret`. */
static int run_call(struct remote *remote, int64_t *result)
{
	const uint64_t end = remote->plan->gadgets.syscall_ret + SYSCALL_INSN_BYTES;
	struct __ptrace_syscall_info info;
	int err;

	do {
		err = step_remote(remote, STEP_TO_SYSCALL_STOP);
		if (err)
			return err;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, remote->tid, sizeof(info), &info) <= 0)
			return ptrace_error(remote, "read the registers");
	} while (info.op != PTRACE_SYSCALL_INFO_EXIT || info.instruction_pointer != end);
	*result = info.exit.rval;
	return 0;
}

int remote_syscall(struct remote *remote, long number, const uint64_t args[6], int64_t *result)
{
	int err;

	for (int i = 0; i < MAX_RESTARTS; i++) {
		err = set_registers(remote, remote->plan->gadgets.syscall_ret, number, args);
		if (!err)
			err = run_call(remote, result);
		if (err || *result > -FIRST_ERESTART || *result < -LAST_ERESTART)
			return err;
	}
	return ctx_error(remote->plan->ctx, -EINTR,
			 "pid %d: system call %ld is interrupted again and again",
			 (int)remote->plan->pid, number);
}

int remote_run(struct remote *remote, uint64_t addr, uint64_t arg, uint64_t *result)
{
	const uint64_t args[6] = { arg, remote->plan->gadgets.syscall_ret };
	struct user_regs_struct regs;
	int64_t last;
	int err = set_registers(remote, addr, 0, args);

	remote->has_run_code = true;
	if (!err)
		err = run_call(remote, &last);
	if (!err && ptrace(PTRACE_GETREGS, remote->tid, NULL, &regs) != 0)
		err = ptrace_error(remote, "read the registers");
	if (!err)
		*result = regs.rbx;
	return err;
}

int remote_end(struct remote *remote)
{
	int err = 0;

	if (!remote)
		return 0;
	/* A lost thread is restored by the frame, when it returns to the restorer. */
	if (!remote->is_lost) {
		if (remote->has_run)
			err = step_remote(remote, STEP_TO_EVENT_STOP);
		if (!err)
			err = restore(remote);
	}
	free(remote);
	return err;
}

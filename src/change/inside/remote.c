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
 *	6. run to an event stop	as tracee_run_stopped() stops a thread
 *	7. set mask, registers	as they were
 *
 * If we are killed before 3 or after 7, the thread is unchanged. In between, the kernel detaches
 * the thread. The thread then finishes the call and returns to the restorer, and rt_sigreturn(2)
 * restores registers, signal mask and vector registers from the frame. A system call that the stop
 * had interrupted starts again, except one that only the kernel can continue (nanosleep, poll): it
 * ends with EINTR. So a thread that is not in one of these calls is preferred.
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
#include "change/inside/remote.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>
#include "look/maps.h"
#include "change/stop/patch.h"
#include "look/proc_file.h"
#include "change/stop/tracee.h"

/* ---- gadgets -------------------------------------------------------------------------------- */

/*
 * Gadgets: instruction sequences in the code of a process. A tracer sets the instruction pointer of
 * a stopped thread to one of them, to make the thread execute it.
 *
 * Search the code of a process for the two gadgets. Every C library has both: signal handlers
 * return to the restorer, and `syscall; ret` ends its short system calls. The C library is searched
 * first, since it is never unmapped; then all other executable mappings of files, and the vdso. A
 * gadget may also be in the middle of other instructions.
 */

/* Addresses of the gadgets in the process. */
struct gadgets {
	uint64_t syscall_ret; /* address of: syscall; ret */
	uint64_t restorer;    /* address of: mov $15,%rax; syscall, which calls rt_sigreturn(2) */
};

enum { CHUNK_BYTES = 1 << 17 };

static const uint8_t syscall_ret_code[] = { 0x0f, 0x05, 0xc3 };
static const uint8_t restorer_code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };

static bool read_memory(pid_t pid, uint64_t addr, void *bytes, size_t n)
{
	const struct iovec local = { bytes, n }, remote = { (void *)(uintptr_t)addr, n };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

static void look_for(const uint8_t *what, size_t bytes, const uint8_t *in, size_t n, uint64_t addr,
		     uint64_t *found)
{
	const uint8_t *at = *found ? NULL : memmem(in, n, what, bytes);

	if (at)
		*found = addr + (uint64_t)(at - in);
}

static bool is_complete(const struct gadgets *gadgets)
{
	return gadgets->syscall_ret && gadgets->restorer;
}

/*
 * Search the mapping M in chunks, which overlap by the size of the longer gadget so that none is
 * missed.
 */
static void search(pid_t pid, const struct mapping *m, uint8_t *chunk, struct gadgets *gadgets)
{
	const uint64_t step = CHUNK_BYTES - sizeof(restorer_code);

	for (uint64_t addr = m->start; addr < m->end && !is_complete(gadgets); addr += step) {
		const size_t n =
			m->end - addr < CHUNK_BYTES ? (size_t)(m->end - addr) : CHUNK_BYTES;

		/* If M extends beyond the end of its file, the pages there cannot be read. */
		if (!read_memory(pid, addr, chunk, n))
			return;
		look_for(syscall_ret_code, sizeof(syscall_ret_code), chunk, n, addr,
			 &gadgets->syscall_ret);
		look_for(restorer_code, sizeof(restorer_code), chunk, n, addr, &gadgets->restorer);
	}
}

static bool is_c_library(const struct mapping *m)
{
	const char *name = strrchr(m->path, '/');

	return name && (strncmp(name, "/libc.", 6) == 0 || strncmp(name, "/libc-", 6) == 0 ||
			strncmp(name, "/ld-musl-", 9) == 0);
}

static void search_all(pid_t pid, const struct maps *maps, bool c_library, uint8_t *chunk,
		       struct gadgets *gadgets)
{
	for (size_t i = 0; i < maps->n && !is_complete(gadgets); i++) {
		const struct mapping *m = &maps->mappings[i];
		const bool is_code = m->executable && m->readable && !m->writable;

		if (is_code && (m->inode || strcmp(m->path, "[vdso]") == 0) &&
		    is_c_library(m) == c_library)
			search(pid, m, chunk, gadgets);
	}
}

/*
 * Find both gadgets in the executable mappings of PID, which need not be stopped. Return -ENOTSUP
 * with a message if one is missing.
 */
static int gadgets_find(struct ocp_ctx *ctx, pid_t pid, struct gadgets *gadgets)
{
	uint8_t *chunk = malloc(CHUNK_BYTES);
	struct maps maps;
	int err;

	*gadgets = (struct gadgets){ 0 };
	if (!chunk)
		return ctx_no_memory(ctx);
	err = maps_read(ctx, pid, &maps);
	if (!err) {
		search_all(pid, &maps, true, chunk, gadgets);
		search_all(pid, &maps, false, chunk, gadgets);
		maps_free(&maps);
	}
	free(chunk);
	if (!err && !is_complete(gadgets))
		err = ctx_error(ctx, -ENOTSUP,
				"pid %d: its code has no `%s`, which a call inside it needs",
				(int)pid, gadgets->restorer ? "syscall; ret" : "rt_sigreturn");
	return err;
}

bool remote_call_is_next(pid_t pid, pid_t tid)
{
	uint8_t next[sizeof(syscall_ret_code)], back[sizeof(restorer_code)];
	struct user_regs_struct regs;
	uint64_t to;

	return ptrace(PTRACE_GETREGS, tid, NULL, &regs) == 0 &&
	       read_memory(pid, regs.rip, next, sizeof(next)) &&
	       memcmp(next, syscall_ret_code, sizeof(next)) == 0 &&
	       read_memory(pid, regs.rsp, &to, sizeof(to)) &&
	       read_memory(pid, to, back, sizeof(back)) &&
	       memcmp(back, restorer_code, sizeof(back)) == 0;
}

/* Return true if both gadgets are still in the memory of PID, which must be stopped. */
static bool gadgets_are_there(pid_t pid, const struct gadgets *gadgets)
{
	uint8_t a[sizeof(syscall_ret_code)], b[sizeof(restorer_code)];

	return read_memory(pid, gadgets->syscall_ret, a, sizeof(a)) &&
	       read_memory(pid, gadgets->restorer, b, sizeof(b)) &&
	       memcmp(a, syscall_ret_code, sizeof(a)) == 0 &&
	       memcmp(b, restorer_code, sizeof(b)) == 0;
}

/* ---- the signal frame ----------------------------------------------------------------------- */

/*
 * struct rt_sigframe of arch/x86/include/asm/sigframe.h, as setup_rt_frame() writes it and
 * rt_sigreturn() (arch/x86/kernel/signal_64.c) reads it:
 *
 *	pretcode	where the signal handler returns to
 *	ucontext	the registers, the signal mask, the alternate stack
 *	siginfo		not read by rt_sigreturn; zero
 *	fpstate		64-aligned, in the uncompacted format of XSAVE, which ptrace(2) also uses
 *
 * asm/sigcontext.h cannot be included together with the signal.h of the C library, so the structs
 * are repeated here, under the names of the kernel.
 */

/* More than the size of the state on any processor: AMX has 8 KB of tiles. */
enum { XSTATE_BYTES = 16384, SIGNAL_FRAME_BYTES = XSTATE_BYTES + 1024 };

/* The state of a stopped thread, as far as a system call or a routine may change it. */
struct thread_state {
	struct user_regs_struct regs;
	uint64_t mask; /* the blocked signals of the thread */
	size_t xstate_bytes;
	uint8_t xstate[XSTATE_BYTES]; /* NT_X86_XSTATE */
};

/*
 * The signal frame. A thread that executes `ret` with rsp at the frame gets its state back: the
 * first word of the frame is the address of the restorer, which calls rt_sigreturn(2).
 */
struct signal_frame {
	uint64_t addr; /* the address of the frame in the process, for rsp */
	size_t bytes;
	uint8_t image[SIGNAL_FRAME_BYTES];
};

enum {
	UC_FP_XSTATE = 0x1,
	UC_SIGCONTEXT_SS = 0x2,
	UC_STRICT_RESTORE_SS = 0x4,
	/* Not a mode of sigaltstack(2), so the kernel leaves the alternate stack as it is. */
	NO_ALTERNATE_STACK = 0x7f,

	SW_RESERVED_OFF = 464, /* in the legacy region of XSAVE; the header of XSAVE follows it */
	XSAVE_HEADER_OFF = 512,
	XSAVE_EXTENDED_OFF = 576,
	XFEATURE_TILE_DATA = 18, /* AMX tiles, which a thread can use only with a permission */

	/* include/linux/errno.h of the kernel */
	ERESTARTSYS = 512,
	ERESTARTNOINTR = 513,
	ERESTARTNOHAND = 514,
	ERESTART_RESTARTBLOCK = 516,
};

#define FP_XSTATE_MAGIC1 0x46505853U
#define FP_XSTATE_MAGIC2 0x46505845U

struct sigcontext_64 {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t di, si, bp, bx, dx, ax, cx, sp, ip, flags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate; /* the address of the XSAVE area */
	uint64_t reserved[8];
};

struct ucontext_64 {
	uint64_t flags, link;
	uint64_t stack_sp;
	uint32_t stack_flags, unused;
	uint64_t stack_size;
	struct sigcontext_64 mcontext;
	uint64_t sigmask;
};

struct rt_sigframe_64 {
	uint64_t pretcode;
	struct ucontext_64 uc;
	uint8_t siginfo[128];
};

struct fpx_sw_bytes {
	uint32_t magic1, extended_size;
	uint64_t xfeatures;
	uint32_t xstate_size, padding[7];
};

_Static_assert(sizeof(struct ucontext_64) == 304 && sizeof(struct fpx_sw_bytes) == 48,
	       "as in the kernel");

/*
 * Return the errno with which the kernel marks an interrupted system call; 0 if no call was
 * interrupted.
 */
static int interrupted_by(const struct user_regs_struct *regs)
{
	return (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax < 0 ? (int)-regs->rax : 0;
}

/*
 * Return true if the thread was interrupted in a system call that will end with EINTR if the frame
 * restores the thread.
 */
static bool signal_frame_ends_call(const struct user_regs_struct *regs)
{
	return interrupted_by(regs) == ERESTART_RESTARTBLOCK;
}

/*
 * Set TO so that an interrupted system call starts again, as arch_do_signal_or_restart() of the
 * kernel does it.
 */
static void restart_call(const struct user_regs_struct *regs, struct sigcontext_64 *to)
{
	switch (interrupted_by(regs)) {
	case ERESTARTSYS:
	case ERESTARTNOINTR:
	case ERESTARTNOHAND:
		to->ax = regs->orig_rax;
		to->ip -= 2;
		break;
	case ERESTART_RESTARTBLOCK:
		to->ax = (uint64_t)-4; /* EINTR: rt_sigreturn(2) forgets how to continue the call */
		break;
	default:
		break;
	}
}

static struct sigcontext_64 registers_of(const struct user_regs_struct *regs)
{
	struct sigcontext_64 to = {
		.r8 = regs->r8,
		.r9 = regs->r9,
		.r10 = regs->r10,
		.r11 = regs->r11,
		.r12 = regs->r12,
		.r13 = regs->r13,
		.r14 = regs->r14,
		.r15 = regs->r15,
		.di = regs->rdi,
		.si = regs->rsi,
		.bp = regs->rbp,
		.bx = regs->rbx,
		.dx = regs->rdx,
		.ax = regs->rax,
		.cx = regs->rcx,
		.sp = regs->rsp,
		.ip = regs->rip,
		.flags = regs->eflags,
		.cs = (uint16_t)regs->cs,
		.ss = (uint16_t)regs->ss,
	};

	restart_call(regs, &to);
	return to;
}

/* Return the size of an XSAVE area with FEATURES, in the uncompacted format. */
static size_t xsave_bytes(uint64_t features)
{
	size_t bytes = XSAVE_EXTENDED_OFF;
	unsigned int size, off, c, d;

	for (unsigned int i = 2; i < 63; i++) {
		if (!(features >> i & 1))
			continue;
		__cpuid_count(0xd, i, size, off, c, d);
		if (off + size > bytes)
			bytes = off + size;
	}
	return bytes;
}

/*
 * Write the XSAVE area to TO, and set *BYTES to its size. The area has the size that the kernel
 * uses for the thread: AMX tiles are included only if the thread uses them. Return false if the
 * area is incomplete or larger than ROOM.
 */
static bool put_xstate(const struct thread_state *state, uint8_t *to, size_t room, size_t *bytes)
{
	struct fpx_sw_bytes sw = { .magic1 = FP_XSTATE_MAGIC1 };
	const uint32_t magic2 = FP_XSTATE_MAGIC2;
	uint64_t in_use;

	if (state->xstate_bytes < XSAVE_EXTENDED_OFF)
		return false;
	/* ptrace(2) reports at this offset which features the kernel has enabled. */
	memcpy(&sw.xfeatures, state->xstate + SW_RESERVED_OFF, sizeof(sw.xfeatures));
	memcpy(&in_use, state->xstate + XSAVE_HEADER_OFF, sizeof(in_use));
	if (!(in_use >> XFEATURE_TILE_DATA & 1))
		sw.xfeatures &= ~(UINT64_C(1) << XFEATURE_TILE_DATA);
	sw.xstate_size = (uint32_t)xsave_bytes(sw.xfeatures);
	sw.extended_size = sw.xstate_size + (uint32_t)sizeof(magic2);
	if (sw.xstate_size > state->xstate_bytes || sw.extended_size > room)
		return false;
	memcpy(to, state->xstate, sw.xstate_size);
	memcpy(to + SW_RESERVED_OFF, &sw, sizeof(sw));
	memcpy(to + sw.xstate_size, &magic2, sizeof(magic2));
	*bytes = sw.extended_size;
	return true;
}

/*
 * Make the frame of a thread for the stack below TOP. The frame restarts a system call that was
 * interrupted; a call like nanosleep(2), which only the kernel can continue, ends with EINTR.
 * Returns false if the processor's state cannot be expressed in a frame.
 */
static bool signal_frame_make(const struct thread_state *state, uint64_t top, uint64_t restorer,
			      struct signal_frame *frame)
{
	/*
	 * Round up to a multiple of 64. The address of the frame is also a multiple of 64, so the
	 * XSAVE area is 64-aligned.
	 */
	const size_t fpstate_off = (sizeof(struct rt_sigframe_64) + 63) & ~(size_t)63;
	struct rt_sigframe_64 head = {
		.pretcode = restorer,
		.uc = {
			.flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
			.stack_flags = NO_ALTERNATE_STACK,
			.mcontext = registers_of(&state->regs),
			.sigmask = state->mask,
		},
	};
	size_t xstate_bytes;

	memset(frame->image, 0, sizeof(frame->image));
	if (!put_xstate(state, frame->image + fpstate_off, sizeof(frame->image) - fpstate_off,
			&xstate_bytes))
		return false;
	frame->bytes = fpstate_off + xstate_bytes;
	frame->addr = (top - frame->bytes) & ~UINT64_C(63);
	head.uc.mcontext.fpstate = frame->addr + fpstate_off;
	memcpy(frame->image, &head, sizeof(head));
	return true;
}

/* ---- the stack ------------------------------------------------------------------------------ */

/*
 * stack_room_find() knows these C stacks:
 *
 *	the first thread	the mapping [stack], which the kernel grows on a write below it
 *	other threads		an anonymous mapping of a megabyte or more with a guard below it.
 *				With every C library, the mapping holds the thread's own data (fs)
 *				above the stack pointer; a coroutine's stack in the heap does not.
 *
 * The stacks of OCaml 5 fibers are small and in the heap. While a thread runs OCaml code on such a
 * stack, its C stack ends at Caml_state->c_stack: C functions are called there. Caml_state is in
 * r14; fiber_c_stack() checks its contents, in case r14 holds something else.
 */

/*
 * At least this many bytes are free below the address that stack_room_find() returns. If pages in
 * this range are not mapped yet, a write to /proc/PID/mem maps them, like a write by the thread
 * itself.
 */
enum { STACK_ROOM_BYTES = 32 * 1024 };

enum {
	RED_ZONE = 512, /* 128 bytes by the ABI, and a reserve */
	/*
	 * More than stack_guard_gap of mm/mmap.c (256 pages): the kernel lets no stack grow closer
	 * than that to the mapping below it.
	 */
	GAP_BYTES = 2 << 20,
	THREAD_STACK_BYTES = 1 << 20,
	THREAD_ROOM_BYTES = 64 * 1024,

	/* Words of Caml_state: domain_state.tbl of OCaml 5. */
	YOUNG_START = 2,
	YOUNG_END = 3,
	FIRST_CURRENT_STACK = 4, /* index of current_stack in OCaml 5.0 */
	LAST_CURRENT_STACK = 5,
	/* The distance in words from current_stack to c_stack is 3 in OCaml, 7 in OxCaml. */
	MAX_C_STACK_AFTER = 8,
	CAML_STATE_WORDS = LAST_CURRENT_STACK + MAX_C_STACK_AFTER + 1,
	/* index of the word in struct stack_info that has the upper end of the stack */
	HANDLER = 2,
};

static bool is_guard(const struct mapping *m)
{
	return !m->readable && !m->writable && !m->executable;
}

static bool is_thread_stack(const struct maps *maps, const struct mapping *m, uint64_t sp,
			    uint64_t fs_base)
{
	return m->inode == 0 && m->path[0] != '/' && strcmp(m->path, "[heap]") != 0 &&
	       m->writable && m->end - m->start >= THREAD_STACK_BYTES && sp < fs_base &&
	       fs_base < m->end && m > maps->mappings && is_guard(m - 1) && m[-1].end == m->start &&
	       sp - m->start >= THREAD_ROOM_BYTES;
}

/*
 * Return true if the kernel can grow M, the first thread's stack, until it begins BYTES below SP.
 * The kernel applies the stack limit of the process that writes. First we write to the stack, later
 * the traced process does, so the limits of both apply.
 */
static bool can_grow(pid_t pid, const struct maps *maps, const struct mapping *m, uint64_t sp,
		     uint64_t bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = (sp - bytes) & ~(page - 1);
	struct rlimit ours, its;

	if (getrlimit(RLIMIT_STACK, &ours) != 0 || prlimit(pid, RLIMIT_STACK, NULL, &its) != 0)
		return false;
	if (m->end - start > ours.rlim_cur || m->end - start > its.rlim_cur)
		return false;
	return m == maps->mappings || start > m[-1].end + GAP_BYTES;
}

static uint64_t room_below(pid_t pid, const struct maps *maps, uint64_t sp, uint64_t fs_base)
{
	enum { BYTES = STACK_ROOM_BYTES + RED_ZONE };
	const struct mapping *m = maps_find(maps, sp);
	bool has_room;

	if (!m)
		return 0;
	has_room = sp - m->start >= BYTES;
	if (strcmp(m->path, "[stack]") == 0)
		has_room = has_room || can_grow(pid, maps, m, sp, BYTES);
	else
		has_room = has_room && is_thread_stack(maps, m, sp, fs_base);
	return has_room ? sp - RED_ZONE : 0;
}

/*
 * Return Caml_state->c_stack if the thread runs OCaml 5 code on a fiber's stack; otherwise 0. The
 * checks make sure that r14 has Caml_state.
 */
static uint64_t fiber_c_stack(pid_t pid, const struct user_regs_struct *regs)
{
	uint64_t state[CAML_STATE_WORDS], stack[HANDLER + 1], of_link;

	if (!read_memory(pid, regs->r14, state, sizeof(state)) || regs->r15 < state[YOUNG_START] ||
	    regs->r15 > state[YOUNG_END])
		return 0;
	for (int i = FIRST_CURRENT_STACK; i <= LAST_CURRENT_STACK; i++) {
		if (regs->rsp <= state[i] || !read_memory(pid, state[i], stack, sizeof(stack)) ||
		    regs->rsp >= stack[HANDLER])
			continue;
		for (int j = i + 1; j <= i + MAX_C_STACK_AFTER; j++)
			if (read_memory(pid, state[j], &of_link, sizeof(of_link)) &&
			    of_link == state[i])
				return state[j];
	}
	return 0;
}

/*
 * Find the C stack of a thread of process PID. REGS are the registers of the thread, MAPS are the
 * maps of the process. Return the upper end of the free part of the stack, which is below the red
 * zone; 0 if the stack is not known, or too small. The process must be stopped.
 */
static uint64_t stack_room_find(pid_t pid, const struct maps *maps,
				const struct user_regs_struct *regs)
{
	uint64_t top = room_below(pid, maps, regs->rsp, regs->fs_base), c_stack;

	if (top)
		return top;
	c_stack = fiber_c_stack(pid, regs);
	return c_stack ? room_below(pid, maps, c_stack, regs->fs_base) : 0;
}

/* ---- a process and its thread --------------------------------------------------------------- */

enum {
	USER_CS_64 = 0x33, /* __USER_CS of arch/x86: the code segment of 64-bit programs */
	MAX_RESTARTS = 100,
	MASK_BYTES = 8,
	SYSCALL_INSN_BYTES = 2,
	FIRST_ERESTART = 512, /* -512 to -516: the kernel hides these from programs */
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

/* ---- what is found while the process runs --------------------------------------------------- */

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
 * Return why remote calls cannot be made in thread TID, according to /proc/TID/status; NULL if this
 * file gives no reason against it.
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
	 * Check only the first thread here. The other threads usually inherit its seccomp filter
	 * and shadow stack, and remote_begin() checks the thread that it chooses.
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

/* ---- choosing a thread ---------------------------------------------------------------------- */

struct candidate {
	pid_t tid;
	/*
	 * What is lost if we are killed: 0 nothing, 1 a signal, 2 a system call (EINTR), 3 a signal
	 * and a system call.
	 */
	int cost;
	uint64_t top;
	struct user_regs_struct regs;
};

/*
 * Return true if the thread is in a restartable sequence (rseq(2)), or if its struct rseq cannot be
 * read. Such a thread cannot be used: with the registers changed, the kernel would see a thread
 * that has left the sequence, and would not abort the sequence.
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

/*
 * Make those checks of thread C that take longer. Return why C cannot be used, or NULL if C can be
 * used.
 */
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

	/*
	 * Skip a thread that is stopped at SIGSTOP: this signal must not be lost, and cannot be
	 * blocked.
	 */
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
	const char *why = "no thread has room on its stack for a signal frame";

	*best = (struct candidate){ 0 };
	if (!gadgets_are_there(plan->pid, &plan->gadgets))
		return ctx_error(plan->ctx, -ESRCH, "pid %d: has executed another program",
				 (int)plan->pid);
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

/* ---- the registers of the thread ------------------------------------------------------------ */

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
 * Set rip and the argument registers of the thread. From now on, if we are killed, the frame
 * restores the thread.
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

/*
 * Restore first the signal mask, then the registers: the top of this file says why in this order.
 */
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

/* ---- calls ---------------------------------------------------------------------------------- */

/*
 * Write the frame of thread C, then set the registers so that they point to it. On failure, restore
 * the thread.
 */
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

/* Run the thread to the end of the system call that it makes next at the `syscall; ret`. */
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
	/*
	 * Do not restore a lost thread: the frame does this when the thread returns to the
	 * restorer.
	 */
	if (!remote->is_lost) {
		if (remote->has_run)
			err = step_remote(remote, STEP_TO_EVENT_STOP);
		if (!err)
			err = restore(remote);
	}
	free(remote);
	return err;
}

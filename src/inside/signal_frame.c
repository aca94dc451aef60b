// SPDX-License-Identifier: MIT
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
 * stand here again, under the names of the kernel.
 */
#include "inside/signal_frame.h"

#include <cpuid.h>
#include <string.h>

enum {
	UC_FP_XSTATE = 0x1,
	UC_SIGCONTEXT_SS = 0x2,
	UC_STRICT_RESTORE_SS = 0x4,
	/* No mode of sigaltstack(2): the kernel leaves the alternate stack as it is. */
	NO_ALTERNATE_STACK = 0x7f,

	SW_RESERVED_OFF = 464, /* in the legacy region of XSAVE; the header of XSAVE follows it */
	XSAVE_HEADER_OFF = 512,
	XSAVE_EXTENDED_OFF = 576,
	XFEATURE_TILE_DATA = 18, /* AMX tiles: a thread needs a permission to use them */

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
	uint64_t fpstate; /* address of the XSAVE area */
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

bool signal_frame_ends_call(const struct user_regs_struct *regs)
{
	return interrupted_by(regs) == ERESTART_RESTARTBLOCK;
}

/* Do what the kernel does before the thread continues: arch_do_signal_or_restart(). */
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

/* Return the size of the XSAVE area with FEATURES, uncompacted. */
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
 * Put the XSAVE area at TO. It has the size that the kernel uses for the thread: AMX tiles are
 * included only if the thread uses them. Return false if the area is incomplete or larger than
 * ROOM.
 */
static bool put_xstate(const struct thread_state *state, uint8_t *to, size_t room, size_t *bytes)
{
	struct fpx_sw_bytes sw = { .magic1 = FP_XSTATE_MAGIC1 };
	const uint32_t magic2 = FP_XSTATE_MAGIC2;
	uint64_t in_use;

	if (state->xstate_bytes < XSAVE_EXTENDED_OFF)
		return false;
	/* ptrace(2) reports here which features the kernel has enabled. */
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

bool signal_frame_make(const struct thread_state *state, uint64_t top, uint64_t restorer,
		       struct signal_frame *frame)
{
	/* A multiple of 64, like the address of the frame, so that the XSAVE area is 64-aligned. */
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

/* SPDX-License-Identifier: MIT */
/*
 * The frame that the kernel puts on the stack of a thread for a signal handler, and that
 * rt_sigreturn(2) reads: all registers and the signal mask of a thread.
 */
#ifndef INSIDE_SIGNAL_FRAME_H
#define INSIDE_SIGNAL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* Larger than the state of any processor: AMX has 8 KB of tiles. */
enum { XSTATE_BYTES = 16384, SIGNAL_FRAME_BYTES = XSTATE_BYTES + 1024 };

/* The state of a stopped thread that a system call or a routine may change. */
struct thread_state {
	struct user_regs_struct regs;
	uint64_t mask; /* its blocked signals */
	size_t xstate_bytes;
	uint8_t xstate[XSTATE_BYTES]; /* NT_X86_XSTATE */
};

/*
 * The frame. A thread that executes `ret` with rsp at the frame gets its state back: the first word
 * of the frame is the address of the C signal restorer.
 */
struct signal_frame {
	uint64_t addr; /* its address in the process; the value for rsp */
	size_t bytes;
	uint8_t image[SIGNAL_FRAME_BYTES];
};

/*
 * Make the frame of a thread for the stack below TOP. The frame restarts a system call that was
 * interrupted; a call like nanosleep(2), which only the kernel can continue, ends with EINTR.
 * Returns false if the processor's state cannot be expressed in a frame.
 */
bool signal_frame_make(const struct thread_state *state, uint64_t top, uint64_t restorer,
		       struct signal_frame *frame);

/*
 * Return true if the thread was interrupted in a system call that the frame can only end with
 * EINTR.
 */
bool signal_frame_ends_call(const struct user_regs_struct *regs);

#endif

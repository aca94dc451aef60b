/* SPDX-License-Identifier: MIT */
/*
 * Walks the stack of a stopped or waiting thread in user space, without BPF: with the unwind tables
 * of a stack walker, and by the same steps from frame to frame as the BPF programs
 * (bpf/walk_frame.bpf.h).
 */
#ifndef UNWIND_STACK_READER_H
#define UNWIND_STACK_READER_H

#include <linux/types.h>
#include <stdint.h>
#include <sys/user.h>
#include "base/ctx.h"
#include "look/memory.h"
#include "unwind/stack_walker.h"
#include "walk.h"

struct stack_reader;

/* WALKER has no BPF maps, and is closed after the reader. */
int stack_reader_open(struct ocp_ctx *ctx, struct stack_walker *walker, struct stack_reader **out);
void stack_reader_close(struct stack_reader *reader);

/*
 * Walk the stack of a stopped thread with the registers REGS, which belongs to process TGID, whose
 * memory is MEMORY. The result has no frames in the kernel. It is valid until the next walk.
 * Allocates nothing, and makes one system call for each page that it reads.
 */
const struct walk_walked *stack_reader_walk(struct stack_reader *reader,
					    const struct memory *memory, uint32_t tgid,
					    const struct user_regs_struct *regs);

/*
 * Like stack_reader_walk(), for a thread that waits in the kernel and is not stopped: only its RSP
 * and RIP are known. The stack ends with WALK_NO_REGISTER where a rule needs another register that
 * no frame before has saved. If the thread runs before the walk has ended, the stack is invalid.
 */
const struct walk_walked *stack_reader_walk_waiting(struct stack_reader *reader,
						    const struct memory *memory, uint32_t tgid,
						    uint64_t rsp, uint64_t rip);

/*
 * Return the stack pointer of each frame of the last walk, as many as the result has frames. The
 * word below the pointer of a frame is the return address of the call that the frame has made.
 */
const uint64_t *stack_reader_pointers(const struct stack_reader *reader);

#endif

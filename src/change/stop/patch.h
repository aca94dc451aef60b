/* SPDX-License-Identifier: MIT */
/*
 * Writing single bytes of text, jumps, and semaphores, of another process. SECURITY.md lists the
 * other files that change a process.
 */
#ifndef CHANGE_STOP_PATCH_H
#define CHANGE_STOP_PATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/*
 * The order of the writes: sites are switched on before their semaphores are raised, and switched
 * off after their semaphores are lowered. Test: tests/e2e/eintr.sh: test_order_of_writes.
 */
enum patch_phase { PATCH_SITES_ON, PATCH_SEMAPHORES, PATCH_SITES_OFF, N_PATCH_PHASES };

struct patch_write {
	uint64_t addr;
	uint16_t old, new; /* the values before and after, of `bytes` bytes, little endian */
	uint8_t bytes;	   /* 1: the write is to an opcode; 2: to a semaphore */
	uint8_t phase;	   /* one of enum patch_phase */
};

/* Access to the memory of one process, and a second thread for large numbers of writes. */
struct patcher;

/*
 * Open the memory of PID, which requires the permission to trace PID. Writes nothing yet. After an
 * exec of PID, writes by PATCHER fail.
 */
int patcher_open(struct ocp_ctx *ctx, pid_t pid, struct patcher **out);
void patcher_close(struct patcher *patcher);

/*
 * Carry out the writes, phase by phase, in any order within a phase. If a write fails, undo the
 * earlier writes. The process must be stopped, unless it is the calling process or
 * patcher_set_running() was called. The caller must have read the `old` values from it.
 */
int patcher_apply(struct patcher *patcher, const struct patch_write *writes, size_t n);

enum { PATCH_JUMP_BYTES = 5 };

/* A jump in place of instructions that no thread is in the middle of, or the other way round. */
struct patch_jump {
	uint64_t addr; /* all bytes are on one page */
	uint8_t old[PATCH_JUMP_BYTES], new[PATCH_JUMP_BYTES];
};

/*
 * Carry out the writes of JUMPS, each by one system call: a tool that is killed leaves the old
 * bytes or the new ones. If a write fails, undo the earlier ones. The process must be stopped, and
 * the caller must have read the `old` bytes in this stop.
 */
int patcher_write_jumps(struct patcher *patcher, const struct patch_jump *jumps, size_t n);

/*
 * Write the N bytes at BYTES to ADDR, in memory that the process does not use, e.g. below the red
 * zone of a stack. Do not use this for text and semaphores. The process must be stopped. Returns 0
 * on success. On failure, returns -errno without a message; some of the bytes may have been
 * written.
 */
int patcher_write_unused(struct patcher *patcher, uint64_t addr, const void *bytes, size_t n);

/*
 * Declare that the process runs, because it could not be stopped; this is allowed for undoing only.
 * From then on PATCHER writes semaphores one by one, through a descriptor that still refers to the
 * memory of the old program after an exec, so that the new program is never changed.
 */
void patcher_set_running(struct patcher *patcher);

/* Open a patcher, apply WRITES and close it. */
int patch_apply(struct ocp_ctx *ctx, pid_t pid, const struct patch_write *writes, size_t n);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Writing single bytes of text and semaphores of another process. SECURITY.md lists the other files
 * that change a process.
 */
#ifndef CHANGE_STOP_PATCH_H
#define CHANGE_STOP_PATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/*
 * The order of the writes: sites are switched on before their semaphores are raised, and off after
 * their semaphores are lowered. Test: tests/e2e/eintr.sh: test_order_of_writes.
 */
enum patch_phase { PATCH_SITES_ON, PATCH_SEMAPHORES, PATCH_SITES_OFF, N_PATCH_PHASES };

struct patch_write {
	uint64_t addr;
	uint16_t old, new; /* of `bytes` bytes, little endian */
	uint8_t bytes;	   /* 1: an opcode; 2: a semaphore */
	uint8_t phase;	   /* enum patch_phase */
};

/* Access to one process's memory, and a second thread for large amounts of writes. */
struct patcher;

/*
 * Open the memory of PID, which requires the permission to trace PID. Writes nothing yet. After an
 * exec of PID, writes fail.
 */
int patcher_open(struct ocp_ctx *ctx, pid_t pid, struct patcher **out);
void patcher_close(struct patcher *patcher);

/*
 * Carry out the writes, phase by phase, in any order within a phase. If a write fails, undo the
 * earlier writes. The process must be stopped, and the caller must have read the `old` values from
 * it.
 */
int patcher_apply(struct patcher *patcher, const struct patch_write *writes, size_t n);

/*
 * Write N BYTES at ADDR, in memory that the process does not use, e.g. below the red zone of a
 * stack. Do not use this for text and semaphores. The process must be stopped. Returns -errno,
 * without a message; some of the bytes may then be written.
 */
int patcher_write_unused(struct patcher *patcher, uint64_t addr, const void *bytes, size_t n);

/*
 * Declare that the process runs, because it could not be stopped; this is allowed for undoing only.
 * From then on PATCHER writes semaphores one by one, through a descriptor that keeps referring to
 * the memory of the present program if the process makes an exec.
 */
void patcher_set_running(struct patcher *patcher);

/* Open a patcher, apply WRITES and close it. */
int patch_apply(struct ocp_ctx *ctx, pid_t pid, const struct patch_write *writes, size_t n);

#endif

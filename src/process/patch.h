/* SPDX-License-Identifier: MIT */
/* Writing into another process. No other module does. */
#ifndef PROCESS_PATCH_H
#define PROCESS_PATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/*
 * What must come before what: sites are switched on before their semaphores rise, and off after
 * they have fallen.
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

/* Needs the right to ptrace PID; nothing is written yet. After an exec of PID it writes nowhere. */
int patcher_open(struct ocp_ctx *ctx, pid_t pid, struct patcher **out);
void patcher_close(struct patcher *patcher);

/*
 * Carry out the writes, phase by phase, in any order within a phase. If one fails, those done are
 * undone. The process must be stopped, and the caller must have seen the `old` values in it.
 */
int patcher_apply(struct patcher *patcher, const struct patch_write *writes, size_t n);

/*
 * The process could not be stopped (undoing only): from now on semaphores are written one by one,
 * through the descriptor that an exec cannot redirect to another program.
 */
void patcher_set_running(struct patcher *patcher);

/* The same once. */
int patch_apply(struct ocp_ctx *ctx, pid_t pid, const struct patch_write *writes, size_t n);

#endif

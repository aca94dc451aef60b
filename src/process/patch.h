/* SPDX-License-Identifier: MIT */
/* Writing into another process. No other module does. */
#ifndef PROCESS_PATCH_H
#define PROCESS_PATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

struct patch_write {
	uint64_t addr;
	uint16_t old, new; /* of `bytes` bytes, little endian */
	uint8_t bytes;	   /* 1: an opcode; 2: a semaphore */
};

/*
 * Carry out the writes in order. If one fails, those before it are undone, in reverse. The process
 * must be stopped, and the caller must have seen the `old` values in it during that stop.
 */
int patch_apply(struct ocp_ctx *ctx, pid_t pid, const struct patch_write *writes, size_t n);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Reading another process's memory, many small pieces at a time. Nothing here writes: see patch.h.
 */
#ifndef PROCESS_MEMORY_H
#define PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/*
 * The address space that process PID had at open. It does not follow an exec: reads fail with
 * -ESRCH once it is gone.
 */
struct memory;

int memory_open(struct ocp_ctx *ctx, pid_t pid, struct memory **out);
void memory_close(struct memory *memory);

/* Is this still the process's address space? */
bool memory_is_alive(const struct memory *memory);

struct memory_piece {
	uint64_t addr;
	uint16_t bytes;
	uint32_t to; /* where in the buffer: memory_read's own */
};

/* Read the pieces back to back into BUF, in their order; afterwards they are in another one. */
int memory_read(const struct memory *memory, struct memory_piece *pieces, size_t n, void *buf);

#endif

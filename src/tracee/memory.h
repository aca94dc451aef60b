/* SPDX-License-Identifier: MIT */
/*
 * Reading many small pieces of another process's memory. patch.h writes.
 */
#ifndef TRACEE_MEMORY_H
#define TRACEE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include "base/ctx.h"

/*
 * The address space that process PID had at memory_open(). After an exec, reads fail with -ESRCH.
 */
struct memory;

int memory_open(struct ocp_ctx *ctx, pid_t pid, struct memory **out);
void memory_close(struct memory *memory);

pid_t memory_pid(const struct memory *memory);

/* Does the process still use this address space? */
bool memory_is_alive(const struct memory *memory);

struct memory_piece {
	uint64_t addr;
	uint16_t bytes;
	uint32_t to; /* offset in the buffer; set by memory_read */
};

/* Read the pieces one after the other into BUF. Changes the order of PIECES. */
int memory_read(const struct memory *memory, struct memory_piece *pieces, size_t n, void *buf);

/*
 * A plan for pieces that are read several times: the slow work is done once. Each piece is put at
 * its `to`. PIECES comes from malloc(3) and belongs to the plan, also after an error. Returns
 * -EFAULT, with a message, if the end of a piece exceeds the address range.
 */
struct memory_plan;
int memory_plan_make(const struct memory *memory, struct memory_piece *pieces, size_t n,
		     struct memory_plan **out);
void memory_plan_free(struct memory_plan *plan);

/* Return the pieces in ascending order of their addresses. They belong to PLAN. */
const struct memory_piece *memory_plan_pieces(const struct memory_plan *plan);

/* Read the pieces into BUF. Allocates nothing. After an error, BUF has some of them. */
int memory_plan_read(const struct memory *memory, struct memory_plan *plan, void *buf);

/*
 * Read the N pieces of REMOTE (at most IOV_MAX) one after the other, in this order, within
 * microseconds: for values that change meanwhile. BYTES is their sum. Call memory_check_alive after
 * the last read: only then did they come from this address space.
 */
int memory_read_in_order(const struct memory *memory, const struct iovec *remote, size_t n,
			 void *buf, size_t bytes);

/*
 * Read BYTES at ADDR. Returns false if they cannot be read, without finding out why: for very many
 * reads.
 */
bool memory_try_read(const struct memory *memory, uint64_t addr, void *buf, size_t bytes);

/* Return -ESRCH, with a message, if the address space is gone. */
int memory_check_alive(const struct memory *memory);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Room look: reading other processes, never altering them.
 * In: a pid.
 * Out: copies of memory, mappings, containers, statuses; the reason if the kernel refuses.
 * Callers: all rooms above.
 */
/* Reading many small pieces of another process's memory. For writing, see patch.h. */
#ifndef LOOK_MEMORY_H
#define LOOK_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include "base/ctx.h"

/*
 * The address space that process PID had at memory_open(). After an exec, memory_read() and
 * memory_plan_read() fail with -ESRCH. memory_read_in_order() and memory_try_read() do not notice
 * the exec, and may read from the new address space: call memory_check_alive() after them.
 */
struct memory;

int memory_open(struct ocp_ctx *ctx, pid_t pid, struct memory **out);
void memory_close(struct memory *memory);

pid_t memory_pid(const struct memory *memory);

/* Return true if the process still uses the address space of MEMORY. */
bool memory_is_alive(const struct memory *memory);

struct memory_piece {
	uint64_t addr;
	uint16_t bytes;
	uint32_t to; /* the offset of the piece in the buffer; memory_read() sets this member */
};

/* Read the N PIECES into BUF, one directly after the other. Changes the order of PIECES. */
int memory_read(const struct memory *memory, struct memory_piece *pieces, size_t n, void *buf);

/*
 * A plan for pieces that are read several times: the pieces are sorted and grouped once. Each piece
 * is read to offset `to` of the buffer. PIECES comes from malloc(3) and belongs to the plan, also
 * after an error. Returns -EFAULT, with a message, if the end of a piece exceeds the address range.
 */
struct memory_plan;
int memory_plan_make(const struct memory *memory, struct memory_piece *pieces, size_t n,
		     struct memory_plan **out);
void memory_plan_free(struct memory_plan *plan);

/* Return the pieces in ascending order of their addresses. They belong to PLAN. */
const struct memory_piece *memory_plan_pieces(const struct memory_plan *plan);

/*
 * Read the pieces of PLAN into BUF. Allocates nothing. After an error, BUF may contain some of the
 * pieces.
 */
int memory_plan_read(const struct memory *memory, struct memory_plan *plan, void *buf);

/*
 * Read the N pieces of REMOTE (at most IOV_MAX) one after the other, in the order of the array,
 * within microseconds. Use this for values that change while they are read. BYTES is the total size
 * of the pieces. The caller must call memory_check_alive() after its last read: if this fails, the
 * bytes may come from another address space.
 */
int memory_read_in_order(const struct memory *memory, const struct iovec *remote, size_t n,
			 void *buf, size_t bytes);

/*
 * Read BYTES bytes at ADDR. Return false, without a message, if they cannot be read. Use this for
 * many reads: it spends no time on finding out why a read fails.
 */
bool memory_try_read(const struct memory *memory, uint64_t addr, void *buf, size_t bytes);

/* Return 0 if the process still uses the address space of MEMORY, else -ESRCH with a message. */
int memory_check_alive(const struct memory *memory);

#endif

/* SPDX-License-Identifier: MIT */
/* Copies of many pieces of a process's memory, which one batch reads. */
#ifndef LOOK_MEMORY_COPIES_H
#define LOOK_MEMORY_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "look/memory.h"

/*
 * Copies of many pieces that are looked for one by one. If all members are 0, there are none.
 * memory_copies_read() takes the N PIECES, which come from malloc(3) and then belong to COPIES,
 * also after an error. Returns 0 or an error of memory_read(); then COPIES is empty.
 */
struct memory_copies {
	struct memory_plan *plan;
	size_t n; /* the number of pieces */
	uint8_t *bytes;
};

int memory_copies_read(struct ocp_ctx *ctx, const struct memory *memory,
		       struct memory_piece *pieces, size_t n, struct memory_copies *copies);
/*
 * Copy the BYTES bytes at ADDR to BUF. If COPIES has a piece with this address and size, copy the
 * piece; otherwise read the process. Return false, without a message, if the bytes cannot be read.
 */
bool memory_copies_get(const struct memory *memory, const struct memory_copies *copies,
		       uint64_t addr, void *buf, size_t bytes);
void memory_copies_free(struct memory_copies *copies);

#endif

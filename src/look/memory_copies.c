// SPDX-License-Identifier: MIT
#include "look/memory_copies.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"

int memory_copies_read(struct ocp_ctx *ctx, const struct memory *memory,
		       struct memory_piece *pieces, size_t n, struct memory_copies *copies)
{
	uint32_t bytes = 0;
	int err;

	*copies = (struct memory_copies){ .n = n };
	for (size_t i = 0; i < n; i++) {
		pieces[i].to = bytes;
		bytes += pieces[i].bytes;
	}
	err = memory_plan_make(memory, pieces, n, &copies->plan);
	if (err)
		return err;
	copies->bytes = malloc(bytes + 1);
	err = copies->bytes ? memory_plan_read(memory, copies->plan, copies->bytes)
			    : ctx_no_memory(ctx);
	if (err)
		memory_copies_free(copies);
	return err;
}

bool memory_copies_get(const struct memory *memory, const struct memory_copies *copies,
		       uint64_t addr, void *buf, size_t bytes)
{
	const struct memory_piece *pieces = copies->plan ? memory_plan_pieces(copies->plan) : NULL;
	const size_t n = pieces ? copies->n : 0, i = SEARCH(j, n, pieces[j].addr < addr);

	if (i == n || pieces[i].addr != addr || pieces[i].bytes != bytes)
		return memory_try_read(memory, addr, buf, bytes);
	memcpy(buf, copies->bytes + pieces[i].to, bytes);
	return true;
}

void memory_copies_free(struct memory_copies *copies)
{
	memory_plan_free(copies->plan);
	free(copies->bytes);
	*copies = (struct memory_copies){ 0 };
}

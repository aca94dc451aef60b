// SPDX-License-Identifier: MIT
#include "memprof/memtrace_codes.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 1 << 12 };

struct coded_frame {
	uint64_t frame;
	uint32_t code; /* 0: the slot is free */
};

struct memtrace_codes {
	struct ocp_ctx *ctx;
	struct coded_frame *slots; /* hash table with open addressing */
	size_t n_slots;
	uint32_t n, most;
};

int memtrace_codes_new(struct ocp_ctx *ctx, uint32_t most, struct memtrace_codes **out)
{
	struct memtrace_codes *c = calloc(1, sizeof(*c));

	*out = c;
	if (!c)
		return ctx_no_memory(ctx);
	*c = (struct memtrace_codes){ .ctx = ctx,
				      .slots = calloc(FIRST_SLOTS, sizeof(*c->slots)),
				      .n_slots = FIRST_SLOTS,
				      .most = most };
	if (c->slots)
		return 0;
	memtrace_codes_free(c);
	*out = NULL;
	return ctx_no_memory(ctx);
}

void memtrace_codes_free(struct memtrace_codes *c)
{
	if (!c)
		return;
	free(c->slots);
	free(c);
}

static size_t find_code_slot(const struct memtrace_codes *c, uint64_t frame)
{
	size_t slot = (frame * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (c->n_slots - 1);

	while (c->slots[slot].code && c->slots[slot].frame != frame)
		slot = (slot + 1) & (c->n_slots - 1);
	return slot;
}

static int grow_codes(struct memtrace_codes *c)
{
	struct coded_frame *old = c->slots, *slots;
	const size_t n_old = c->n_slots;

	if (2 * (size_t)c->n < n_old)
		return 0;
	slots = n_old ? calloc(2 * n_old, sizeof(*slots)) : NULL;
	if (!slots)
		return ctx_no_memory(c->ctx);
	c->slots = slots;
	c->n_slots = 2 * n_old;
	for (size_t i = 0; i < n_old; i++)
		if (old[i].code)
			slots[find_code_slot(c, old[i].frame)] = old[i];
	free(old);
	return 0;
}

int memtrace_code_of(struct memtrace_codes *c, uint64_t frame, uint32_t *code, bool *is_new)
{
	size_t slot;
	int err = grow_codes(c);

	*is_new = false;
	if (err)
		return err;
	slot = find_code_slot(c, frame);
	*code = c->slots[slot].code;
	if (*code)
		return 0;
	*code = c->most;
	if (c->n >= c->most)
		return 0;
	*code = ++c->n;
	*is_new = true;
	/* The last code is not stored with a frame, since all further frames share it. */
	if (c->n < c->most)
		c->slots[slot] = (struct coded_frame){ frame, c->n };
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * A site is written in three steps: the opcode 3d, the displacement, the opcode that is wanted. While the
 * opcode is 3d the displacement means nothing: the instruction is a comparison whose result nobody reads.
 * So a tool that is killed after any byte leaves a valid program, and the bytes say how far it got.
 */
#include "inside/site_bytes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading -------------------------------------------------------------------------------- */

/* One by one: a site whose plugin has been unloaded reads as zeros, which is foreign. */
static void read_singly(const struct memory *memory, const struct block_site *sites, size_t n,
			struct site_bytes *bytes)
{
	for (size_t i = 0; i < n; i++) {
		const struct iovec code = { (void *)(uintptr_t)sites[i].addr, SITE_BYTES };
		const struct iovec gate = { (void *)(uintptr_t)sites[i].gate_addr,
					    sizeof(bytes->gate) };

		if (memory_read_in_order(memory, &code, 1, bytes[i].code, SITE_BYTES) != 0)
			memset(bytes[i].code, 0, SITE_BYTES);
		if (!sites[i].gate_addr || memory_read_in_order(memory, &gate, 1, &bytes[i].gate,
								sizeof(bytes->gate)) != 0)
			bytes[i].gate = 0;
	}
}

/* Neighbours often have one semaphore: it is read once. */
static bool has_own_gate(const struct block_site *sites, size_t i)
{
	return sites[i].gate_addr && (!i || sites[i].gate_addr != sites[i - 1].gate_addr);
}

int site_bytes_read(struct ocp_ctx *ctx, const struct memory *memory,
		    const struct block_site *sites, size_t n, struct site_bytes **bytes)
{
	struct memory_piece *pieces = calloc(2 * n + 1, sizeof(*pieces));
	struct site_bytes *all = calloc(n + 1, sizeof(*all));
	uint8_t *buf = malloc(n * sizeof(*all) + 1), *from = buf;
	size_t n_pieces = 0;
	int err = 0;

	*bytes = NULL;
	if (!pieces || !all || !buf) {
		err = ctx_no_memory(ctx);
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		pieces[n_pieces++] =
			(struct memory_piece){ .addr = sites[i].addr, .bytes = SITE_BYTES };
		if (has_own_gate(sites, i))
			pieces[n_pieces++] = (struct memory_piece){ .addr = sites[i].gate_addr,
								    .bytes = sizeof(all->gate) };
	}
	err = memory_read(memory, pieces, n_pieces, buf);
	if (err == -EFAULT) {
		read_singly(memory, sites, n, all);
		err = memory_check_alive(memory);
	} else {
		for (size_t i = 0; !err && i < n; i++) {
			memcpy(all[i].code, from, SITE_BYTES);
			from += SITE_BYTES;
			if (has_own_gate(sites, i)) {
				memcpy(&all[i].gate, from, sizeof(all->gate));
				from += sizeof(all->gate);
			} else if (sites[i].gate_addr) {
				all[i].gate = all[i - 1].gate;
			}
		}
	}
	if (!err) {
		*bytes = all;
		all = NULL;
	}
out:
	free(all);
	free(pieces);
	free(buf);
	return err;
}

enum site_now site_now(const struct block_site *site, const struct site_bytes *bytes)
{
	const uint32_t ours = inside_displacement(site);
	const uint8_t opcode = bytes->code[1];
	uint32_t displacement;

	memcpy(&displacement, bytes->code + 2, sizeof(displacement));
	if ((bytes->code[0] != SITE_NOP && bytes->code[0] != SITE_INT3) ||
	    (opcode != SITE_ON && opcode != SITE_OFF))
		return SITE_NOW_FOREIGN;
	if (displacement == ours)
		return opcode == SITE_ON ? SITE_NOW_COUNTS : SITE_NOW_SWITCHED;
	if (displacement == site->displacement)
		return SITE_NOW_ORIGINAL;
	for (int shift = 0; shift < 32; shift += 8) {
		const uint8_t byte = (uint8_t)(displacement >> shift);

		if (opcode != SITE_OFF || (byte != (uint8_t)(ours >> shift) &&
					   byte != (uint8_t)(site->displacement >> shift)))
			return SITE_NOW_FOREIGN;
	}
	return SITE_NOW_CUT;
}

/* ---- writing -------------------------------------------------------------------------------- */

void site_change_set(struct site_change *change, const struct block_site *site,
		     const struct site_bytes *bytes, uint8_t opcode, uint32_t displacement)
{
	change->addr = site->addr;
	memcpy(change->old, bytes->code + 1, sizeof(change->old));
	change->new[0] = opcode;
	memcpy(change->new + 1, &displacement, sizeof(displacement));
}

enum step { STEP_OFF, STEP_DISPLACEMENT, STEP_OPCODE, N_STEPS };

static void add_write(struct patch_write *writes, size_t *n, uint64_t addr, uint8_t old,
		      uint8_t new)
{
	if (old != new)
		writes[(*n)++] = (struct patch_write){
			.addr = addr, .old = old, .new = new, .bytes = 1, .phase = PATCH_SITES_ON
		};
}

static void add_step(const struct site_change *change, enum step step, struct patch_write *writes,
		     size_t *n)
{
	const bool moves = memcmp(change->old + 1, change->new + 1, 4) != 0;
	const uint8_t between = moves ? SITE_OFF : change->old[0];

	if (step == STEP_OFF)
		add_write(writes, n, change->addr + 1, change->old[0], between);
	else if (step == STEP_OPCODE)
		add_write(writes, n, change->addr + 1, between, change->new[0]);
	else
		for (int i = 1; i < 5; i++)
			add_write(writes, n, change->addr + 1 + (uint64_t)i, change->old[i],
				  change->new[i]);
}

static int write_step(struct patcher *patcher, const struct site_change *changes, size_t n,
		      enum step step, bool undo, struct patch_write *writes)
{
	size_t n_writes = 0;

	for (size_t i = 0; i < n; i++)
		add_step(&changes[i], step, writes, &n_writes);
	for (size_t i = 0; undo && i < n_writes; i++) {
		const uint16_t old = writes[i].old;

		writes[i].old = writes[i].new;
		writes[i].new = old;
	}
	return n_writes ? patcher_apply(patcher, writes, n_writes) : 0;
}

int site_changes_write(struct ocp_ctx *ctx, struct patcher *patcher,
		       const struct site_change *changes, size_t n)
{
	struct patch_write *writes = calloc(4 * n + 1, sizeof(*writes));
	int step, err = 0;

	if (!writes)
		return ctx_no_memory(ctx);
	for (step = 0; !err && step < N_STEPS; step++)
		err = write_step(patcher, changes, n, (enum step)step, false, writes);
	/* The step that failed has undone itself. */
	if (err && err != -ESRCH)
		for (step -= 2; step >= 0; step--)
			write_step(patcher, changes, n, (enum step)step, true, writes);
	free(writes);
	return err;
}

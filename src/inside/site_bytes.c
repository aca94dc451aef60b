// SPDX-License-Identifier: MIT
/*
 * A site is written in three steps: the opcode 3d, the displacement, the wanted opcode. While the
 * opcode is 3d the displacement means nothing: the instruction is a comparison whose result is not
 * used. So a tool that is killed after any byte leaves a valid program, and the bytes show how far
 * the tool got.
 */
#include "inside/site_bytes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- what they are --------------------------------------------------------------------------- */

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

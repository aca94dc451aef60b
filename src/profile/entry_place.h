/* SPDX-License-Identifier: MIT */
/*
 * Finds the cheapest place for a uprobe that sees each call of a C function with its first
 * argument.
 */
#ifndef PROFILE_ENTRY_PLACE_H
#define PROFILE_ENTRY_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"
#include "code/code_file.h"
#include "elf/symbols.h"

struct entry_place {
	uint64_t va;
	bool is_stepped; /* the kernel single-steps the instruction, which is ten times slower */
};

/*
 * Find the place for a uprobe on FUNCTION, which is in FILE. The place is the entry, unless the
 * kernel would single-step the instruction there. In that case, it is the first instruction that
 * the kernel emulates and that each call executes exactly once, if the instructions before it
 * neither branch nor change rdi or memory. If there is no such instruction, it is the entry after
 * all. Return 0, or -ENOMEM with a message.
 */
int entry_place_find(struct ocp_ctx *ctx, struct code_file *file,
		     const struct named_symbol *function, struct entry_place *place);

#endif

/* SPDX-License-Identifier: MIT */
/* Where a uprobe sees each call of a function of C with its first argument, at the least cost. */
#ifndef PROFILE_ENTRY_PLACE_H
#define PROFILE_ENTRY_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"
#include "code/code_file.h"
#include "elf/named_symbols.h"

struct entry_place {
	uint64_t va;
	bool is_stepped; /* the kernel single-steps the instruction, which takes ten times as long */
};

/*
 * Find the first instruction of FUNCTION, which is of FILE, that each call executes exactly once and
 * that the kernel emulates. It is the place if the instructions before it neither branch nor change rdi
 * or memory: there all is as at the entry. Else the place is the entry. -ENOMEM with a message.
 */
int entry_place_find(struct ocp_ctx *ctx, struct code_file *file,
		     const struct named_symbol *function, struct entry_place *place);

#endif

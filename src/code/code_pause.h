/* SPDX-License-Identifier: MIT */
/* Where the calls of a C function begin and end, by instructions that the kernel emulates. */
#ifndef CODE_CODE_PAUSE_H
#define CODE_CODE_PAUSE_H

#include <stdint.h>
#include "base/ctx.h"
#include "code/code_file.h"

/* Offsets of two instructions from the entry, and rsp at the entry minus rsp there. */
struct code_pause {
	uint32_t begin, end;
	int32_t begin_depth, end_depth;
};

/*
 * Find the first and the last instruction of FUNCTION, which is of FILE, that each call executes
 * exactly once and that the kernel emulates. If THROUGH_VA is not 0, only those calls matter that call
 * the function at THROUGH_VA, and other calls must execute neither. -ENODATA: there are none; -ENOMEM.
 */
int code_pause_find(struct ocp_ctx *ctx, const struct code_bytes *function, struct code_file *file,
		    uint64_t through_va, struct code_pause *out);

#endif

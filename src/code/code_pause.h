/* SPDX-License-Identifier: MIT */
/*
 * Find the two instructions of a C function between which its calls are timed. The kernel emulates
 * both.
 */
#ifndef CODE_CODE_PAUSE_H
#define CODE_CODE_PAUSE_H

#include <stdint.h>
#include "base/ctx.h"
#include "code/code_file.h"

/*
 * Two instructions. begin and end are their offsets from the entry of the function; begin_depth and
 * end_depth are rsp at the entry minus rsp before the instruction.
 */
struct code_pause {
	uint32_t begin, end;
	int32_t begin_depth, end_depth;
};

/*
 * Find the first and the last instruction of FUNCTION, which is in FILE, that each call executes
 * exactly once and that the kernel emulates. If THROUGH_VA is not 0, only the calls of FUNCTION
 * that call the function at THROUGH_VA must execute them; other calls must execute neither. Returns
 * -ENODATA if there are no such instructions, or -ENOMEM.
 */
int code_pause_find(struct ocp_ctx *ctx, const struct code_bytes *function, struct code_file *file,
		    uint64_t through_va, struct code_pause *out);

#endif

/* SPDX-License-Identifier: MIT */
/* Assigns codes, which are numbers from 1, to the frames in a memtrace file. */
#ifndef MEMPROF_MEMTRACE_CODES_H
#define MEMPROF_MEMTRACE_CODES_H

#include <stdbool.h>
#include "base/ctx.h"

struct memtrace_codes;

/*
 * Assign at most MOST codes; the code MOST stands for all frames that do not get a code of their
 * own.
 */
int memtrace_codes_new(struct ocp_ctx *ctx, uint32_t most, struct memtrace_codes **out);
void memtrace_codes_free(struct memtrace_codes *codes);

/*
 * Set *CODE to the code of FRAME, and *IS_NEW to whether this call is the first that returns this
 * code.
 */
int memtrace_code_of(struct memtrace_codes *codes, uint64_t frame, uint32_t *code, bool *is_new);

#endif

/* SPDX-License-Identifier: MIT */
/* The codes of frames in a memtrace file: numbers from 1. */
#ifndef MEMPROF_MEMTRACE_CODES_H
#define MEMPROF_MEMTRACE_CODES_H

#include <stdbool.h>
#include "base/ctx.h"

struct memtrace_codes;

/* Give at most MOST codes; the last code stands for all further frames. */
int memtrace_codes_new(struct ocp_ctx *ctx, uint32_t most, struct memtrace_codes **out);
void memtrace_codes_free(struct memtrace_codes *codes);

/* Set *CODE to the code of FRAME, and *IS_NEW if no earlier call has returned this code. */
int memtrace_code_of(struct memtrace_codes *codes, uint64_t frame, uint32_t *code, bool *is_new);

#endif

/* SPDX-License-Identifier: MIT */
/* The codes of frames in a memtrace file: numbers from 1. */
#ifndef MEMPROF_MEMTRACE_CODES_H
#define MEMPROF_MEMTRACE_CODES_H

#include <stdbool.h>
#include "base/ctx.h"

struct memtrace_codes;

/* MOST codes: the last one stands for all other frames. */
int memtrace_codes_new(struct ocp_ctx *ctx, uint32_t most, struct memtrace_codes **out);
void memtrace_codes_free(struct memtrace_codes *codes);

/* The *CODE of FRAME. *IS_NEW: it was not asked for before. */
int memtrace_code_of(struct memtrace_codes *codes, uint64_t frame, uint32_t *code, bool *is_new);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Find the two calls by which a function of OCaml 5's runtime reports the beginning and the end of
 * a phase to runtime_events.
 */
#ifndef CODE_GC_EVENT_CALLS_H
#define CODE_GC_EVENT_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"
#include "elf/elf_file.h"

struct gc_event_calls {
	uint64_t begin_va, end_va; /* addresses of the call instructions, as linked */
};

/*
 * Find two calls in the function at VA: a call of the function at EV_BEGIN, and a call of the
 * function at EV_END. Both must have the constant EVENT as argument. N_BYTES is the size of the
 * function at VA, 0 if it is not known. Returns -ENODATA if one of the two calls is missing or is
 * there several times, or if a jump leads between a call and the instruction that loads its
 * constant.
 */
int gc_event_calls_find(struct ocp_ctx *ctx, const struct elf_file *elf, uint64_t va,
			uint64_t n_bytes, uint64_t ev_begin, uint64_t ev_end, uint32_t event,
			struct gc_event_calls *calls);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The calls by which the runtime of OCaml 5 reports the begin and the end of its phases:
 * caml_ev_begin(EVENT) and caml_ev_end(EVENT). EVENT is a number of enum ev_runtime_phase in
 * runtime/caml/runtime_events.h. The runtime makes these calls whether or not runtime_events is on.
 */
#ifndef CODE_GC_EVENTS_H
#define CODE_GC_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "elf/elf_file.h"

/* The event of a call whose argument is not the same constant on every path to the call. */
#define GC_EVENT_UNKNOWN UINT32_MAX

struct gc_event_call {
	uint64_t va; /* address of the call or jump instruction, as linked */
	uint64_t function_va, function_bytes; /* the function that contains it */
	uint32_t event;
	bool is_end;
	bool is_jump; /* the instruction is a tail call: a jump */
};

struct gc_event_calls {
	struct gc_event_call *list; /* sorted by va; the caller frees it */
	size_t n;
};

/*
 * Find all calls of the functions at BEGIN_VA and END_VA in the code of ELF, whatever function they
 * are in. The bounds of functions come from .eh_frame or, where .eh_frame lacks them, from symbols.
 * A call outside of all known functions has the event GC_EVENT_UNKNOWN. The only error is -ENOMEM.
 */
int gc_event_calls_find(struct ocp_ctx *ctx, struct elf_file *elf, uint64_t begin_va,
			uint64_t end_va, struct gc_event_calls *calls);

#endif

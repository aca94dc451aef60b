/* SPDX-License-Identifier: MIT */
/* The phases of the garbage collector, and the functions of a runtime that execute them. */
#ifndef CODE_GC_PHASES_H
#define CODE_GC_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "code/runtime.h"
#include "elf/elf_file.h"

/* The two calls by which a function reports a phase to runtime_events. */
struct gc_event_calls {
	uint64_t begin_va, end_va; /* addresses of the call instructions, as linked */
};

/*
 * A phase in some versions of the runtime. Its functions are C functions, on which return probes
 * are safe. A pause lasts from the entry of a timed function to its return, in one thread.
 */
struct gc_phase {
	const char *name; /* "gc:minor" */
	/*
	 * The functions whose calls are pauses. Both NULL: the phase is a moment, without a
	 * duration. Some phases have two timed functions. Their pauses are never nested.
	 */
	const char *timed_symbols[2];
	/* Each call of this function is one event. NULL: each pause is one event. */
	const char *counted_symbol;
	/*
	 * A call of a timed function is a pause only if the thread calls the counted function
	 * during it.
	 */
	bool counted_in_timed;
	/*
	 * A call is not a pause if its argument number `argument` (1 is in %edi ... 4 in %ecx) has
	 * the value not_argument. If `argument` is 0, there is no such condition.
	 */
	unsigned int argument;
	uint32_t not_argument;
	bool only_if_true;  /* a call that returns 0 in %eax is not a pause */
	bool is_per_domain; /* OCaml 5: each domain has its own pauses */
	const char *source; /* the evidence in the runtime's source */
	/*
	 * For files that lack the symbol of a timed function, which is local: a global function
	 * that ends with a jump to the timed function.
	 */
	const char *jumps_to[2];
	/*
	 * For each timed function, the number of enum ev_runtime_phase that the function passes to
	 * caml_ev_begin and caml_ev_end. A pause then lasts from the call of caml_ev_begin to the
	 * call of caml_ev_end. 0: a pause is a call of the timed function.
	 */
	uint32_t events[2];
};

/* A phase in an executable. */
struct gc_phase_place {
	const char *name;
	const struct gc_phase *phase;	/* NULL if the version of the runtime has no such phase */
	uint64_t timed_vas[2];		/* addresses of the timed functions, as linked; 0: none */
	struct gc_event_calls calls[2]; /* set only if the phase has events */
	uint64_t counted_va;		/* address of the counted function, as linked; 0: none */
	const char *missing;		/* a symbol that was not found; NULL: all were found */
};

enum { N_GC_PHASES = 5 };

/* The names of all phases, in a fixed order. */
extern const char *const gc_phase_names[N_GC_PHASES];

/*
 * Find all phases in ELF, whose runtime is RUNTIME. Set PLACES to the phases in the order of
 * gc_phase_names.
 */
int gc_phases_find(struct ocp_ctx *ctx, struct elf_file *elf, const struct runtime *runtime,
		   struct gc_phase_place places[N_GC_PHASES]);

/*
 * Return 0 if PLACE can be measured. Otherwise record an error with the reason, and return -ENOENT
 * (the version has no such phase) or -ENODATA (a symbol is missing).
 */
int gc_phase_check(struct ocp_ctx *ctx, const struct elf_file *elf, const struct runtime *runtime,
		   const struct gc_phase_place *place);

#endif

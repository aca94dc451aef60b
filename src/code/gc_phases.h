/* SPDX-License-Identifier: MIT */
/* The phases of the garbage collector, and the functions of a runtime that execute them. */
#ifndef CODE_GC_PHASES_H
#define CODE_GC_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "code/gc_events.h"
#include "code/runtime.h"
#include "elf/elf_file.h"

/* Events that the runtime of OCaml 5 reports. Their numbers differ between versions. */
enum gc_event {
	GC_NO_EVENT,
	GC_EVENT_MINOR,
	GC_EVENT_EXPLICIT_SLICE, /* Gc.major_slice: no phase, but it tells the numbers */
	GC_EVENT_SLICE,
	GC_EVENT_STW_HANDLER,
	GC_EVENT_STW_LEADER,
	GC_EVENT_COMPACT,
	GC_EVENT_EMPTY_MINOR,
	N_GC_EVENTS
};

/*
 * A phase in some versions of the runtime. Its functions are C functions, on which return probes
 * are safe. A pause lasts from the entry of a timed function to its return, in one thread, or
 * between two calls that report events.
 */
struct gc_phase {
	const char *name; /* "gc:minor" */
	/*
	 * A pause lasts from a call of caml_ev_begin to the next call of caml_ev_end, both with one
	 * of these events as argument. Some phases have two events. Their pauses are never nested.
	 */
	enum gc_event events[2];
	/* A function that reports events[0]. NULL: not known. */
	const char *reporter;
	/*
	 * If the phase has no events: the functions whose calls are pauses. Both NULL: the phase is
	 * a moment, without a duration. Pauses of two timed functions are never nested.
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
};

enum {
	N_GC_PHASES = 6,
	/* limit for the calls that report a phase; a call can be inlined in several functions */
	MAX_GC_PHASE_CALLS = 16,
};

/* A phase in an executable. */
struct gc_phase_place {
	const char *name;
	const struct gc_phase *phase; /* NULL if the version of the runtime has no such phase */
	uint64_t timed_vas[2];	      /* addresses of the timed functions, as linked; 0: none */
	/* if the phase has events: all calls that report them */
	struct gc_event_call calls[MAX_GC_PHASE_CALLS];
	size_t n_calls;
	uint64_t counted_va; /* address of the counted function, as linked; 0: none */
	const char *missing; /* a symbol that was not found; NULL: all were found */
	/* why the calls that report the events are not known, as the end of a sentence; or NULL */
	const char *problem;
};

/* The names of all phases, in a fixed order. */
extern const char *const gc_phase_names[N_GC_PHASES];

/*
 * Find all phases in ELF, whose runtime is RUNTIME. Set PLACES to the phases in the order of
 * gc_phase_names. The only errors are -ENOMEM and those of named_symbols_find().
 */
int gc_phases_find(struct ocp_ctx *ctx, struct elf_file *elf, const struct runtime *runtime,
		   struct gc_phase_place places[N_GC_PHASES]);

/* Return true if the phase at PLACE, for which gc_phase_check() has returned 0, has a duration. */
static inline bool gc_phase_is_timed(const struct gc_phase_place *place)
{
	return place->n_calls || place->timed_vas[0];
}

/*
 * Return 0 if PLACE can be measured. Otherwise record an error with the reason, and return -ENOENT
 * (the version has no such phase) or -ENODATA (a symbol is missing, or the code does not show
 * the phase).
 */
int gc_phase_check(struct ocp_ctx *ctx, const struct elf_file *elf, const struct runtime *runtime,
		   const struct gc_phase_place *place);

#endif

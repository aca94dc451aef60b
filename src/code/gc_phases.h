/* SPDX-License-Identifier: MIT */
/* The phases of the garbage collector, and the functions of a runtime that they are. */
#ifndef CODE_GC_PHASES_H
#define CODE_GC_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "code/runtime.h"

/*
 * A phase in some versions of the runtime. Its functions are C functions. A pause lasts from the
 * entry of the timed function to its return, in one thread. Return probes are safe there.
 */
struct gc_phase {
	const char *name;	    /* "gc:minor" */
	const char *timed_symbol;   /* NULL: the phase is a moment, without a duration */
	const char *counted_symbol; /* each entry is an event; NULL: of the timed function */
	/*
	 * A call of the timed function is a pause only if the counted function was entered in it, by
	 * the same thread.
	 */
	bool counted_in_timed;
	/*
	 * Calls of the timed function whose argument of this number (1 is in %edi ... 4 in %ecx)
	 * has the value not_argument do not count. 0: all calls count.
	 */
	unsigned int argument;
	uint32_t not_argument;
	bool only_if_true;   /* calls of the timed function that return 0 do not count */
	bool is_per_domain;  /* each domain has an event of its own */
	bool is_exact;	     /* its number equals what the runtime itself counts */
	const char *source;  /* where this is known from */
};

/* A phase in an executable. */
struct gc_phase_place {
	const char *name;
	const struct gc_phase *phase;  /* NULL: the version has no such phase */
	uint64_t timed_va, counted_va; /* as linked; 0: none */
	const char *missing;	       /* a symbol that the file lacks; NULL: none */
};

enum { N_GC_PHASES = 5 };

/* The names of all phases, in a fixed order. */
extern const char *const gc_phase_names[N_GC_PHASES];

/* Find all phases, in that order, in ELF, whose runtime is RUNTIME. */
int gc_phases_find(struct ocp_ctx *ctx, struct elf_file *elf, const struct runtime *runtime,
		   struct gc_phase_place places[N_GC_PHASES]);

/* Why PLACE cannot be measured, as an error. 0 if it can. */
int gc_phase_check(struct ocp_ctx *ctx, const struct elf_file *elf, const struct runtime *runtime,
		   const struct gc_phase_place *place);

#endif

/* SPDX-License-Identifier: MIT */
/* The phases of the collector of a program that can be measured. */
#ifndef TOOL_GC_PLAN_H
#define TOOL_GC_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "code/gc_phases.h"

struct elf_file;
struct ocp_program;
struct runtime;

/* The phases to measure, in the order of gc_phase_names. */
struct gc_plan {
	const char *names[N_GC_PHASES];
	bool is_timed[N_GC_PHASES]; /* otherwise, the phase is counted */
	size_t n;
};

/*
 * Set PLAN to the phases that can be measured in ELF, a program with RUNTIME: count the phases that
 * are moments, and time the other phases. Phases that the program lacks are left out; the ctx then
 * has the reason for the last one. Return 0 or a negative errno.
 */
int gc_plan_make(struct ocp_ctx *ctx, struct elf_file *elf, const struct runtime *runtime,
		 struct gc_plan *plan);

/* Why the engine `inside` cannot measure phases, or their times: messages. */
struct gc_refusals {
	char *list[2 * N_GC_PHASES]; /* NULL: out of memory */
	size_t n;
};

/*
 * Remove from PLAN what the engine `inside` cannot measure in PROG: the times of a phase, or the
 * phase. Add the reasons to REFUSALS. The caller calls gc_refusals_free(), also after an error.
 */
int gc_plan_fit_inside(struct ocp_ctx *ctx, const struct ocp_program *prog, struct gc_plan *plan,
		       struct gc_refusals *refusals);
void gc_refusals_free(struct gc_refusals *refusals);

#endif

// SPDX-License-Identifier: MIT
#include "tool/gc_plan.h"

#include "code/runtime.h"

/*
 * Phases whose functions mostly return at once, such as gc:stw, are left out: domains of OCaml 5
 * call its functions up to a thousand times for each pause.
 */
int gc_plan_make(struct ocp_ctx *ctx, struct elf_file *elf, const struct runtime *runtime,
		 struct gc_plan *plan)
{
	struct gc_phase_place places[N_GC_PHASES];
	int err = gc_phases_find(ctx, elf, runtime, places);

	*plan = (struct gc_plan){ .n = 0 };
	for (size_t i = 0; !err && i < N_GC_PHASES; i++) {
		if (gc_phase_check(ctx, elf, runtime, &places[i]) || places[i].phase->only_if_true)
			continue;
		plan->is_timed[plan->n] = gc_phase_is_timed(&places[i]);
		plan->names[plan->n++] = places[i].name;
	}
	return err;
}

// SPDX-License-Identifier: MIT
#include "tool/gc_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "code/runtime.h"
#include "program/code_probes.h"

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

/*
 * Check that the engine `inside` can measure the phases [FIRST, END) of PLAN in PROG. Return
 * -EOPNOTSUPP, with the reason in CTX, if it cannot measure one of them.
 */
static int check_phases_inside(struct ocp_ctx *ctx, const struct ocp_program *prog,
			       const struct gc_plan *plan, size_t first, size_t end)
{
	struct code_wish wishes[N_GC_PHASES];
	struct code_probes *code;
	int err;

	for (size_t i = first; i < end; i++)
		wishes[i - first] = (struct code_wish){ .text = plan->names[i],
							.is_timed = plan->is_timed[i],
							.by_window = true };
	err = code_probes_find(ctx, prog, wishes, end - first, &code);
	if (!err)
		code_probes_free(code);
	return err;
}

int gc_plan_fit_inside(struct ocp_ctx *ctx, const struct ocp_program *prog, struct gc_plan *plan,
		       struct gc_refusals *refusals)
{
	int err = check_phases_inside(ctx, prog, plan, 0, plan->n);
	size_t n = 0;

	if (err != -EOPNOTSUPP)
		return err;
	for (size_t i = 0; i < plan->n; i++) {
		err = check_phases_inside(ctx, prog, plan, i, i + 1);
		if (err == -EOPNOTSUPP)
			refusals->list[refusals->n++] = strdup(ocp_error(ctx));
		if (err == -EOPNOTSUPP && plan->is_timed[i]) {
			plan->is_timed[i] = false;
			err = check_phases_inside(ctx, prog, plan, i, i + 1);
		}
		if (err && err != -EOPNOTSUPP)
			return err;
		plan->names[n] = plan->names[i];
		plan->is_timed[n] = plan->is_timed[i];
		n += !err;
	}
	plan->n = n;
	return 0;
}

void gc_refusals_free(struct gc_refusals *refusals)
{
	for (size_t i = 0; i < refusals->n; i++)
		free(refusals->list[i]);
	refusals->n = 0;
}

/* SPDX-License-Identifier: MIT */
/* Plans that make a probe's sites and semaphores agree again. Nothing is written here. */
#ifndef PROCESS_REPAIR_H
#define PROCESS_REPAIR_H

#include "process/journal_search.h"
#include "process/plan.h"

/*
 * Plan the repair described at ocp_process_repair. STALE are the journals to undo or, of those of
 * updates and if COMPLETE, to complete: those that the plan settles are marked. *REPAIRED is what
 * the plan amounts to. The order of the writes is
 * plan_make's: cut anywhere, a second repair finishes the work. Each step's verb says what its
 * writes lead to.
 */
int repair_plan(const struct plan_context *context, const struct snapshot *snapshot,
		struct stale_journals *stale, bool complete, struct plan *plan,
		struct ocp_repaired *repaired);

/*
 * By how much undoing JOURNAL, or completing it, changes the counter of PROBE, which is COUNT now,
 * for its entry number ENTRY.
 */
int repair_change(const struct stale_journal *journal, size_t entry, const struct live_probe *probe,
		  uint16_t count, bool complete);

/* None of JOURNAL's probes has a damaged site, so that it can be settled. */
bool repair_can_settle(const struct plan_context *context, const struct snapshot *snapshot,
		       const struct stale_journal *journal);

#endif

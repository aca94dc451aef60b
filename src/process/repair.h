/* SPDX-License-Identifier: MIT */
/* Plans that make a probe's sites and semaphores agree again. Nothing is written here. */
#ifndef PROCESS_REPAIR_H
#define PROCESS_REPAIR_H

#include "process/journal.h"
#include "process/plan.h"

/*
 * Plan the repair described at ocp_process_repair. STALE are the journals to undo: those that
 * the plan undoes are marked. *REPAIRED is what the plan amounts to. The order of the writes is
 * plan_make's: cut anywhere, a second repair finishes the work. Each step's verb says what its
 * writes lead to.
 */
int repair_plan(const struct plan_context *context, const struct snapshot *snapshot,
		struct stale_journals *stale, struct plan *plan, struct ocp_repaired *repaired);

/* By how much JOURNAL's undoing changes a counter that is COUNT now, for its entry ENTRY. */
int repair_undo_change(const struct stale_journal *journal, const struct journal_entry *entry,
		       uint16_t count);

#endif

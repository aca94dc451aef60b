/* SPDX-License-Identifier: MIT */
/*
 * Plans that make the sites and semaphores of each probe agree again. These functions write
 * nothing.
 */
#ifndef CHANGE_SWITCH_REPAIR_H
#define CHANGE_SWITCH_REPAIR_H

#include "change/switch/journal.h"
#include "change/switch/plan.h"

/*
 * Plan the repair that ocp_process_repair() describes. The plan undoes the actions of the journals
 * STALE; if COMPLETE is set, it completes the actions of interrupted updates instead. Sets
 * `settled` of each journal whose actions the plan undoes or completes. *REPAIRED counts what the
 * plan changes. The order of the writes is that of plan_make(): if the repair is interrupted
 * anywhere, a second repair finishes it. The verb of a step is the state that its writes lead to.
 */
int repair_plan(struct ocp_ctx *ctx, const struct snapshot *snapshot, struct stale_journals *stale,
		bool complete, struct plan *plan, struct ocp_repaired *repaired);

/*
 * Return the number to add to the counter of PROBE, which is COUNT now, to undo entry number ENTRY
 * of JOURNAL; or to complete the entry, if COMPLETE is set and JOURNAL is of an update.
 */
int repair_change(const struct stale_journal *journal, size_t entry, const struct live_probe *probe,
		  uint16_t count, bool complete);

/* Return true if JOURNAL can be undone or completed: none of its probes has a damaged site. */
bool repair_can_settle(const struct snapshot *snapshot, const struct stale_journal *journal);

#endif

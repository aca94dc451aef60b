// SPDX-License-Identifier: MIT
/*
 * Repairing probes whose sites and semaphores disagree.
 *
 * To enable a probe, a tool writes the sites before the semaphores; to disable it, the other way
 * round. So a tool that is killed in between leaves sites on with a counter of 0. The counter is
 * the number of users, and the repair switches the sites to agree with it.
 *
 * A probe has several counters if its name is in several plugins, or in several compilation units
 * of the oldest compilers. The highest counter is right: the others miss an enable, because they
 * were loaded later, or were compiled as off while another unit was compiled as on. The repair
 * raises them; lowering the highest one would take the probe from a user.
 *
 * A probe whose semaphore the linker has dropped has no counter. If its sites disagree, all are
 * switched off: that completes an interrupted disable, and undoes an interrupted enable.
 *
 * The journals of killed tools (journal.h) change the counts first. All changes are in one plan,
 * which is carried out in one stop; each byte is written at most once.
 *
 * The tests are tests/unit/test_repair.c, and doctor.sh and interrupted.sh in tests/e2e.
 */
#include "change/switch/repair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "change/inside/own_stores.h"
#include "change/switch/plan.h"
#include "change/stop/patch.h"
#include "process/process.h"
#include "process/site_form.h"

struct repair {
	struct plan *plan;
	struct ocp_repaired *repaired;
	bool complete;	  /* true: complete interrupted updates; false: undo them */
	uint16_t *counts; /* for each probe: the value that its semaphores have after the repair */
	bool *damaged;	  /* for each probe: true if one of its sites is damaged */
};

static bool is_damaged(const struct snapshot *snapshot, const struct live_probe *probe)
{
	for (size_t i = probe->first_site; i < probe->first_site + probe->n_sites; i++) {
		const struct live_site *site = &snapshot->live->sites[i];

		if (!site_form_is_sound(snapshot_form(snapshot, site)))
			return true;
	}
	return false;
}

bool repair_can_settle(const struct snapshot *snapshot, const struct stale_journal *journal)
{
	for (size_t i = 0; i < journal->n; i++) {
		ptrdiff_t probe = live_find_probe(snapshot->live, journal->entries[i].name);

		if (probe >= 0 && is_damaged(snapshot, &snapshot->live->probes[probe]))
			return false;
	}
	return true;
}

/*
 * Return CHANGE, limited so that the counter of PROBE, which is COUNT now, stays within its range.
 */
static int within_bounds(int change, const struct live_probe *probe, uint16_t count)
{
	/* The counter of a probe without a semaphore is 0 or 1. */
	int most = probe->n_semaphores ? UINT16_MAX : 1;

	if (change < -(int)count)
		return -(int)count;
	return change > most - (int)count ? most - (int)count : change;
}

int repair_change(const struct stale_journal *journal, size_t entry, const struct live_probe *probe,
		  uint16_t count, bool complete)
{
	const struct journal_entry *e = &journal->entries[entry];
	bool shall_be_done = complete && journal->kind == JOURNAL_UPDATE;
	int change = e->count_after - e->count_before;

	if (journal_was_done(journal, entry, count) == shall_be_done)
		return 0;
	if (e->count_before == JOURNAL_UNKNOWN)
		change = e->verb == ACTION_ENABLE ? +1 : -1;
	return within_bounds(shall_be_done ? change : -change, probe, count);
}

/*
 * Change r->counts so that the actions of JOURNAL are undone or completed. If a probe of JOURNAL
 * has a damaged site, do nothing: the whole journal is left for later.
 */
static void settle(const struct repair *r, struct stale_journal *journal)
{
	const struct snapshot *snapshot = r->plan->snapshot;
	const struct live *live = snapshot->live;

	if (!repair_can_settle(snapshot, journal))
		return;
	for (size_t i = 0; i < journal->n; i++) {
		ptrdiff_t probe = live_find_probe(live, journal->entries[i].name);
		int change;

		if (probe < 0)
			continue;
		change = repair_change(journal, i, &live->probes[probe],
				       snapshot_count(snapshot, (size_t)probe), r->complete);
		change = within_bounds(change, &live->probes[probe], r->counts[probe]);
		r->counts[probe] = (uint16_t)(r->counts[probe] + change);
		if (r->complete && journal->kind == JOURNAL_UPDATE)
			r->repaired->completed += change != 0;
		else
			r->repaired->undone += change != 0;
	}
	journal->settled = true;
}

static void plan_site_writes(const struct repair *r, const struct live_probe *probe, bool on)
{
	for (size_t i = probe->first_site; i < probe->first_site + probe->n_sites; i++)
		*(on ? &r->repaired->sites_on : &r->repaired->sites_off) +=
			plan_write_site(r->plan, &r->plan->snapshot->live->sites[i], on);
}

static void write_semaphores(const struct repair *r, const struct live_probe *probe, uint16_t count)
{
	size_t end = probe->first_semaphore + probe->n_semaphores;

	for (size_t i = probe->first_semaphore; i < end; i++)
		r->repaired->semaphores += plan_write_semaphore(r->plan, i, count);
}

static void repair_probe(const struct repair *r, size_t index)
{
	const struct live_probe *probe = &r->plan->snapshot->live->probes[index];
	struct plan_step *step = &r->plan->steps[r->plan->n_steps];
	uint16_t count = r->counts[index];

	if (r->damaged[index])
		return;
	*step = (struct plan_step){
		.probe = index,
		.verb = count ? ACTION_ENABLE : ACTION_DISABLE,
		.first_write = r->plan->n_writes,
	};
	plan_site_writes(r, probe, count != 0);
	write_semaphores(r, probe, count);
	step->n_writes = r->plan->n_writes - step->first_write;
	if (!step->n_writes)
		return;
	r->plan->n_steps++;
	r->repaired->probes++;
}

int repair_plan(struct ocp_ctx *ctx, const struct snapshot *snapshot, struct stale_journals *stale,
		bool complete, struct plan *plan, struct ocp_repaired *repaired)
{
	const struct live *live = snapshot->live;
	struct repair r = {
		.plan = plan,
		.repaired = repaired,
		.complete = complete,
		.counts = calloc(live->n_probes + 1, sizeof(*r.counts)),
		.damaged = calloc(live->n_probes + 1, sizeof(*r.damaged)),
	};
	int err;

	*repaired = (struct ocp_repaired){ 0 };
	err = plan_init(ctx, snapshot, false, plan);
	if (!err && (!r.counts || !r.damaged)) {
		err = ctx_no_memory(ctx);
		plan_free(plan);
	}
	if (err)
		goto out;
	for (size_t i = 0; i < live->n_probes; i++) {
		r.counts[i] = snapshot_count(snapshot, i);
		r.damaged[i] = is_damaged(snapshot, &live->probes[i]);
	}
	for (size_t i = 0; i < stale->n; i++)
		settle(&r, &stale->list[i]);
	for (size_t i = 0; i < live->n_probes; i++)
		repair_probe(&r, i);
out:
	free(r.counts);
	free(r.damaged);
	return err;
}

/* ---- carrying it out ------------------------------------------------------------------------ */

/* Read the journals into STALE, and make PLAN. The caller frees both, also after an error. */
static int plan_repair_now(struct ocp_process *proc, unsigned int flags,
			   struct stale_journals *stale, struct plan *plan,
			   struct ocp_repaired *repaired)
{
	struct snapshot snapshot;
	int err;

	*plan = (struct plan){ 0 };
	err = journal_find_stale(proc->ctx, proc->pid, stale);
	if (err)
		return err;
	err = snapshot_read(proc->ctx, proc->memory, &proc->live, &snapshot);
	if (!err) {
		err = repair_plan(proc->ctx, &snapshot, stale, flags & OCP_COMPLETE, plan,
				  repaired);
		snapshot_free(&snapshot);
	}
	return err;
}

static int each_settled(struct ocp_process *proc, const struct stale_journals *stale,
			int (*do_it)(struct ocp_ctx *ctx, const struct stale_journal *journal))
{
	int err = 0;

	for (size_t i = 0; !err && i < stale->n; i++)
		if (stale->list[i].settled)
			err = do_it(proc->ctx, &stale->list[i]);
	return err;
}

/*
 * With the process stopped, plan again and carry out the plan. The journals are also read, changed
 * and removed during the stop. So if two repairs run at the same time, only one of them undoes or
 * completes each journal. Test: interrupted.sh: test_two_at_once.
 */
static int repair_stopped(struct ocp_process *proc, unsigned int flags,
			  struct ocp_repaired *repaired)
{
	struct stale_journals stale;
	struct plan plan;
	int err = plan_repair_now(proc, flags, &stale, &plan, repaired);

	if (!err && plan.n_writes)
		err = each_settled(proc, &stale, journal_reopen_stale);
	if (!err)
		err = patch_apply(proc->ctx, proc->pid, plan.writes, plan.n_writes);
	if (!err)
		err = each_settled(proc, &stale, journal_remove_stale);
	plan_free(&plan);
	journal_free_stale(&stale);
	return err;
}

int ocp_process_repair(struct ocp_process *proc, unsigned int flags, struct ocp_repaired *repaired)
{
	bool hold = !proc->held && !proc->is_self, needs_stop;
	struct stale_journals stale;
	struct plan plan;
	int err;

	*repaired = (struct ocp_repaired){ 0 };
	err = hold ? inside_clear(proc->ctx, proc->pid, true) : 0;
	if (err)
		return err;
	/* Plan while the process runs: without writes and journals, it need not be stopped. */
	err = plan_repair_now(proc, flags, &stale, &plan, repaired);
	needs_stop = !err && (plan.n_writes || stale.n);
	if (needs_stop)
		err = gigatext_check(proc->ctx, proc->pid, &plan);
	plan_free(&plan);
	journal_free_stale(&stale);
	if (err || !needs_stop)
		return err;
	if (hold)
		err = ocp_process_hold(proc);
	if (err)
		return err;
	err = repair_stopped(proc, flags, repaired);
	if (hold)
		ocp_process_release(proc);
	if (err)
		*repaired = (struct ocp_repaired){ 0 };
	return err;
}

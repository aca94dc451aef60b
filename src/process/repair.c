// SPDX-License-Identifier: MIT
/*
 * Repairing probes whose sites and semaphores disagree.
 *
 * Switching writes a probe's sites before its semaphores when it enables and after them when it
 * disables. A tool that is killed on the way so leaves sites on with a counter of 0, and the
 * counters are what says how many users there are: they are the truth, the sites follow. Of several
 * counters of one name (a name has one in each compilation unit of the oldest compilers, and in
 * each plugin) the highest is: the others miss an enable, because they were loaded later, or
 * compiled as off beside a unit that was compiled as on. Raising them costs nothing; lowering it
 * would take a probe from somebody who asked for it.
 *
 * What a killed tool had promised to undo (journal.h) changes that count first. All this is one
 * plan under one stop; each byte is written at most once, by the one writer.
 */
#include "process/repair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "process/gigatext.h"
#include "process/patch.h"
#include "process/process.h"
#include "process/site_form.h"

struct repair {
	const struct plan_context *context;
	const struct snapshot *snapshot;
	struct plan *plan;
	struct ocp_repaired *repaired;
	uint16_t *counts; /* of each probe, what its semaphores shall be */
	bool *damaged;	  /* of each probe */
};

static bool is_damaged(const struct repair *r, const struct live_probe *probe)
{
	for (size_t i = probe->first_site; i < probe->first_site + probe->n_sites; i++) {
		const struct live_site *site = &r->context->live->sites[i];
		const struct elf_file *elf = r->context->images->images[site->image].prog->elf;

		if (!site_form_is_sound(
			    site_form(elf, site->site, snapshot_code(r->snapshot, site))))
			return true;
	}
	return false;
}

static uint16_t highest_count(const struct repair *r, const struct live_probe *probe)
{
	uint16_t highest = 0;

	for (size_t i = 0; i < probe->n_semaphores; i++)
		if (r->snapshot->semaphores[probe->first_semaphore + i] > highest)
			highest = r->snapshot->semaphores[probe->first_semaphore + i];
	return highest;
}

int repair_undo_change(const struct stale_journal *journal, const struct journal_entry *entry,
		       uint16_t count)
{
	/* Announced only, and the counter is as before: it was not done. */
	if (!journal->applied && entry->count_before == count)
		return 0;
	if (entry->verb == ACTION_ENABLE)
		return count ? -1 : 0;
	return count < UINT16_MAX ? +1 : 0;
}

/* Undo a journal in the counts. One that concerns a damaged probe is left for later, whole. */
static void undo(const struct repair *r, struct stale_journal *journal)
{
	const struct live *live = r->context->live;

	for (size_t i = 0; i < journal->n; i++) {
		ptrdiff_t probe = live_find_probe(live, journal->entries[i].name);

		if (probe >= 0 && r->damaged[probe])
			return;
	}
	for (size_t i = 0; i < journal->n; i++) {
		ptrdiff_t probe = live_find_probe(live, journal->entries[i].name);
		int change;

		if (probe < 0)
			continue;
		change = repair_undo_change(journal, &journal->entries[i], r->counts[probe]);
		r->counts[probe] = (uint16_t)(r->counts[probe] + change);
		r->repaired->undone += change != 0;
	}
	journal->undone = true;
}

static void write_sites(const struct repair *r, const struct live_probe *probe, bool on)
{
	for (size_t i = probe->first_site; i < probe->first_site + probe->n_sites; i++) {
		const struct live_site *live_site = &r->context->live->sites[i];
		const struct site *site = live_site->site;
		uint8_t opcode = on ? site->on_opcode : site->off_opcode;
		uint8_t old = snapshot_opcode(r->snapshot, live_site);

		if (old == opcode)
			continue;
		r->plan->writes[r->plan->n_writes++] = (struct patch_write){
			.addr = live_site->addr + site->opcode_at,
			.bytes = 1,
			.old = old,
			.new = opcode,
			.phase = on ? PATCH_SITES_ON : PATCH_SITES_OFF,
		};
		*(on ? &r->repaired->sites_on : &r->repaired->sites_off) += 1;
	}
}

static void write_semaphores(const struct repair *r, const struct live_probe *probe, uint16_t count)
{
	size_t end = probe->first_semaphore + probe->n_semaphores;

	for (size_t i = probe->first_semaphore; i < end; i++) {
		uint16_t old = r->snapshot->semaphores[i];

		if (old == count)
			continue;
		r->plan->writes[r->plan->n_writes++] = (struct patch_write){
			.addr = r->context->live->semaphores[i].addr,
			.bytes = 2,
			.old = old,
			.new = count,
			.phase = PATCH_SEMAPHORES,
		};
		r->repaired->semaphores++;
	}
}

static void repair_probe(const struct repair *r, size_t index)
{
	const struct live_probe *probe = &r->context->live->probes[index];
	struct plan_step *step = &r->plan->steps[r->plan->n_steps];
	uint16_t count = r->counts[index];

	if (r->damaged[index])
		return;
	*step = (struct plan_step){
		.probe = index,
		.verb = count ? ACTION_ENABLE : ACTION_DISABLE,
		.first_write = r->plan->n_writes,
	};
	write_sites(r, probe, count != 0);
	write_semaphores(r, probe, count);
	step->n_writes = r->plan->n_writes - step->first_write;
	if (!step->n_writes)
		return;
	r->plan->n_steps++;
	r->repaired->probes++;
}

int repair_plan(const struct plan_context *context, const struct snapshot *snapshot,
		struct stale_journals *stale, struct plan *plan, struct ocp_repaired *repaired)
{
	const struct live *live = context->live;
	struct repair r = {
		.context = context,
		.snapshot = snapshot,
		.plan = plan,
		.repaired = repaired,
		.counts = calloc(live->n_probes + 1, sizeof(*r.counts)),
		.damaged = calloc(live->n_probes + 1, sizeof(*r.damaged)),
	};
	int err = 0;

	*repaired = (struct ocp_repaired){ 0 };
	*plan = (struct plan){
		.steps = calloc(live->n_probes + 1, sizeof(*plan->steps)),
		.writes = calloc(live->n_sites + live->n_semaphores + 1, sizeof(*plan->writes)),
	};
	if (!r.counts || !r.damaged || !plan->steps || !plan->writes) {
		err = ctx_no_memory(context->ctx);
		plan_free(plan);
		goto out;
	}
	for (size_t i = 0; i < live->n_probes; i++) {
		r.counts[i] = highest_count(&r, &live->probes[i]);
		r.damaged[i] = is_damaged(&r, &live->probes[i]);
	}
	for (size_t i = 0; i < stale->n; i++)
		undo(&r, &stale->list[i]);
	for (size_t i = 0; i < live->n_probes; i++)
		repair_probe(&r, i);
out:
	free(r.counts);
	free(r.damaged);
	return err;
}

/* ---- carrying it out ------------------------------------------------------------------------ */

struct work {
	struct stale_journals stale;
	struct plan plan;
};

static void work_free(struct work *work)
{
	plan_free(&work->plan);
	journal_free_stale(&work->stale);
}

static int work_plan(struct ocp_process *proc, struct work *work, struct ocp_repaired *repaired)
{
	const struct plan_context context = {
		.ctx = proc->ctx,
		.images = &proc->images,
		.live = &proc->live,
	};
	struct snapshot snapshot;
	int err;

	*work = (struct work){ 0 };
	err = journal_find_stale(proc->ctx, proc->pid, &work->stale);
	if (err)
		return err;
	err = snapshot_read(proc->ctx, proc->memory, &proc->live, &snapshot);
	if (!err) {
		err = repair_plan(&context, &snapshot, &work->stale, &work->plan, repaired);
		snapshot_free(&snapshot);
	}
	if (err)
		work_free(work);
	return err;
}

static int remove_undone(struct ocp_process *proc, const struct stale_journals *stale)
{
	int err = 0;

	for (size_t i = 0; !err && i < stale->n; i++)
		if (stale->list[i].undone)
			err = journal_remove_stale(proc->ctx, &stale->list[i]);
	return err;
}

/*
 * With the process stopped: plan again, and carry it out. The journals too are read and removed
 * during the stop: of two repairs at once only one undoes them.
 */
static int repair_stopped(struct ocp_process *proc, struct ocp_repaired *repaired)
{
	struct work work;
	int err = work_plan(proc, &work, repaired);

	if (err)
		return err;
	err = patch_apply(proc->ctx, proc->pid, work.plan.writes, work.plan.n_writes);
	if (!err)
		err = remove_undone(proc, &work.stale);
	work_free(&work);
	return err;
}

int ocp_process_repair(struct ocp_process *proc, struct ocp_repaired *repaired)
{
	bool hold = !proc->held && !proc->is_self, needs_stop;
	struct work work;
	int err;

	*repaired = (struct ocp_repaired){ 0 };
	/* What needs no write needs no stop. */
	err = work_plan(proc, &work, repaired);
	if (err)
		return err;
	needs_stop = work.plan.n_writes || work.stale.n;
	if (needs_stop)
		err = gigatext_check(proc->ctx, proc->pid, &work.plan);
	work_free(&work);
	if (err || !needs_stop)
		return err;
	if (hold)
		err = ocp_process_hold(proc);
	if (err)
		return err;
	err = repair_stopped(proc, repaired);
	if (hold)
		ocp_process_release(proc);
	if (err)
		*repaired = (struct ocp_repaired){ 0 };
	return err;
}

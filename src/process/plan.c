// SPDX-License-Identifier: MIT
#include "process/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "process/resolve.h"
#include "process/site_form.h"

int plan_init(struct ocp_ctx *ctx, const struct snapshot *snapshot, bool force, struct plan *plan)
{
	const struct live *live = snapshot->live;

	*plan = (struct plan){
		.ctx = ctx,
		.snapshot = snapshot,
		.force = force,
		.steps = calloc(live->n_probes + 1, sizeof(*plan->steps)),
		.writes = calloc(2 * live->n_sites + live->n_semaphores + 1, sizeof(*plan->writes)),
	};
	if (plan->steps && plan->writes)
		return 0;
	plan_free(plan);
	return ctx_no_memory(ctx);
}

/* ---- writes --------------------------------------------------------------------------------- */

static size_t write_opcode(struct plan *plan, const struct live_site *site, bool on)
{
	uint8_t opcode = on ? site->site->on_opcode : site->site->off_opcode;
	uint8_t old = snapshot_opcode(plan->snapshot, site);

	if (old == opcode)
		return 0;
	plan->writes[plan->n_writes++] = (struct patch_write){
		.addr = site->addr + site->site->opcode_at,
		.bytes = 1,
		.phase = on ? PATCH_SITES_ON : PATCH_SITES_OFF,
		.old = old,
		.new = opcode,
	};
	return 1;
}

/*
 * If the gate of T is private, add the write that sets it. Otherwise the gate is a semaphore, which
 * is written with the other semaphores of the probe. Return the number of writes added.
 */
static size_t write_gate(struct plan *plan, const struct trampoline *t, bool on)
{
	if (!t->has_private_gate || (t->gate != 0) == on)
		return 0;
	plan->writes[plan->n_writes++] = (struct patch_write){
		.addr = t->gate_addr,
		.bytes = 2,
		.phase = on ? PATCH_SITES_ON : PATCH_SITES_OFF,
		.old = t->gate,
		.new = on,
	};
	return 1;
}

size_t plan_write_site(struct plan *plan, const struct live_site *site, bool on)
{
	const struct trampoline *t = snapshot_trampoline(plan->snapshot, site);

	if (!t)
		return write_opcode(plan, site, on);
	/*
	 * The site calls its trampoline, whether on or off, so that it is counted. The opcode is
	 * another one only if another tool wrote it.
	 */
	return write_opcode(plan, site, true) + write_gate(plan, t, on);
}

size_t plan_write_semaphore(struct plan *plan, size_t semaphore, uint16_t value)
{
	uint16_t old = plan->snapshot->semaphores[semaphore];

	if (old == value)
		return 0;
	plan->writes[plan->n_writes++] = (struct patch_write){
		.addr = plan->snapshot->live->semaphores[semaphore],
		.bytes = 2,
		.phase = PATCH_SEMAPHORES,
		.old = old,
		.new = value,
	};
	return 1;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int report_bad_site(const struct plan *plan, size_t site, const char *why)
{
	const struct live_site *live_site = &plan->snapshot->live->sites[site];
	char code[SITE_CODE_TEXT_BYTES];

	return ctx_error(plan->ctx, -EILSEQ, "site 0x%" PRIx64 " (%s): %s:%s", live_site->addr,
			 plan->snapshot->live->images->images[live_site->image].path, why,
			 site_code_text(snapshot_code(plan->snapshot, live_site),
					live_site->site->n_bytes, code));
}

static int verify_site(const struct plan *plan, size_t site)
{
	const struct live_site *live_site = &plan->snapshot->live->sites[site];
	enum site_form form = snapshot_form(plan->snapshot, live_site);

	return site_form_is_sound(form) ? 0 : report_bad_site(plan, site, site_form_fault(form));
}

static void plan_sites(struct plan *plan, const struct live_probe *probe, bool on)
{
	for (size_t i = probe->first_site; i < probe->first_site + probe->n_sites; i++)
		plan_write_site(plan, &plan->snapshot->live->sites[i], on);
}

static void plan_semaphores(struct plan *plan, const struct live_probe *probe,
			    enum action_verb verb)
{
	size_t end = probe->first_semaphore + probe->n_semaphores;

	for (size_t i = probe->first_semaphore; i < end; i++) {
		uint16_t old = plan->snapshot->semaphores[i];

		if (plan->force)
			plan_write_semaphore(plan, i, verb == ACTION_ENABLE);
		else if (verb == ACTION_ENABLE)
			plan_write_semaphore(plan, i, (uint16_t)(old + 1));
		else if (old) /* a semaphore of 0 disagrees with the others, and stays 0 */
			plan_write_semaphore(plan, i, (uint16_t)(old - 1));
	}
}

static int verify_sites(const struct plan *plan, const struct live_probe *probe)
{
	int err = 0;

	for (size_t i = 0; !err && i < probe->n_sites; i++)
		err = verify_site(plan, probe->first_site + i);
	if (err)
		ctx_error_prefix(plan->ctx, "probe '%s'", probe->name);
	return err;
}

/* Add to PLAN a step that does the same as ACTION for the same probe. */
static int plan_probe(struct plan *plan, const struct plan_step *action)
{
	const struct live_probe *probe = &plan->snapshot->live->probes[action->probe];
	struct plan_step *step = &plan->steps[plan->n_steps];
	uint16_t count = snapshot_count(plan->snapshot, action->probe);
	int err = verify_sites(plan, probe);

	if (err)
		return err;
	*step = *action;
	step->first_write = plan->n_writes;
	plan->n_steps++;
	if (action->verb == ACTION_ENABLE) {
		if (count == UINT16_MAX && !plan->force)
			return ctx_error(plan->ctx, -ERANGE,
					 "probe '%s': is enabled %u times, which is the maximum",
					 probe->name, count);
		plan_sites(plan, probe, true);
		plan_semaphores(plan, probe, action->verb);
	} else {
		if (snapshot_state(plan->snapshot, action->probe) == OCP_DISABLED &&
		    !action->leave_disabled && !plan->force)
			return ctx_error(plan->ctx, -ERANGE, "probe '%s': is disabled already",
					 probe->name);
		plan_semaphores(plan, probe, action->verb);
		plan_sites(plan, probe, count > 1 && !plan->force);
	}
	step->n_writes = plan->n_writes - step->first_write;
	return 0;
}

static int plan_actions(struct plan *plan, const struct ocp_actions *actions)
{
	struct plan_step *chosen;
	size_t n;
	int err = actions_resolve(plan->ctx, plan->snapshot->live, actions, &chosen, &n);

	for (size_t i = 0; !err && i < n; i++)
		err = plan_probe(plan, &chosen[i]);
	free(chosen);
	return err;
}

int plan_make(struct ocp_ctx *ctx, const struct ocp_actions *actions,
	      const struct snapshot *snapshot, bool force, struct plan *plan)
{
	int err = plan_init(ctx, snapshot, force, plan);

	if (!err)
		err = plan_actions(plan, actions);
	if (err)
		plan_free(plan);
	return err;
}

int plan_renew(const struct plan *plan, size_t first, size_t n, struct plan *renewed)
{
	int err = plan_init(plan->ctx, plan->snapshot, plan->force, renewed);

	for (size_t i = first; !err && i < first + n; i++)
		err = plan_probe(renewed, &plan->steps[i]);
	if (err)
		plan_free(renewed);
	return err;
}

void plan_free(struct plan *plan)
{
	free(plan->steps);
	free(plan->writes);
	plan->steps = NULL;
	plan->writes = NULL;
	plan->n_steps = plan->n_writes = 0;
}

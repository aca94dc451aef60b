// SPDX-License-Identifier: MIT
#include "process/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "process/resolve.h"
#include "process/site_form.h"

struct action_planner {
	struct ocp_ctx *ctx;
	const struct image_list *images;
	const struct live *live;
	bool force;
	const struct snapshot *snapshot;
	struct plan *plan;
};

int plan_init(struct ocp_ctx *ctx, const struct live *live, struct plan *plan)
{
	*plan = (struct plan){
		.steps = calloc(live->n_probes + 1, sizeof(*plan->steps)),
		.writes = calloc(2 * live->n_sites + live->n_semaphores + 1, sizeof(*plan->writes)),
	};
	if (plan->steps && plan->writes)
		return 0;
	plan_free(plan);
	return ctx_no_memory(ctx);
}

/* ---- writes --------------------------------------------------------------------------------- */

static size_t write_opcode(struct plan *plan, const struct snapshot *snapshot,
			   const struct live_site *site, bool on)
{
	uint8_t opcode = on ? site->site->on_opcode : site->site->off_opcode;
	uint8_t old = snapshot_opcode(snapshot, site);

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

size_t plan_write_site(struct plan *plan, const struct snapshot *snapshot, const struct live *live,
		       const struct live_site *site, bool on)
{
	const struct trampoline *t = snapshot_trampoline(live, snapshot, site);

	if (!t)
		return write_opcode(plan, snapshot, site, on);
	/*
	 * The site calls its trampoline, whether on or off, so that it is counted. The opcode is
	 * another one only if another tool wrote it.
	 */
	return write_opcode(plan, snapshot, site, true) + write_gate(plan, t, on);
}

size_t plan_write_semaphore(struct plan *plan, const struct snapshot *snapshot,
			    const struct live *live, size_t semaphore, uint16_t value)
{
	uint16_t old = snapshot->semaphores[semaphore];

	if (old == value)
		return 0;
	plan->writes[plan->n_writes++] = (struct patch_write){
		.addr = live->semaphores[semaphore].addr,
		.bytes = 2,
		.phase = PATCH_SEMAPHORES,
		.old = old,
		.new = value,
	};
	return 1;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int report_bad_site(const struct action_planner *p, size_t site, const char *why)
{
	const struct live_site *live_site = &p->live->sites[site];
	char code[SITE_CODE_TEXT_BYTES];

	return ctx_error(p->ctx, -EILSEQ, "site 0x%" PRIx64 " (%s): %s:%s", live_site->addr,
			 p->images->images[live_site->image].path, why,
			 site_code_text(snapshot_code(p->snapshot, live_site),
					live_site->site->n_bytes, code));
}

static int verify_site(const struct action_planner *p, size_t site)
{
	const struct live_site *live_site = &p->live->sites[site];
	enum site_form form = snapshot_form(p->live, p->snapshot, live_site);

	return site_form_is_sound(form) ? 0 : report_bad_site(p, site, site_form_fault(form));
}

static void plan_sites(const struct action_planner *p, const struct live_probe *probe, bool on)
{
	for (size_t i = probe->first_site; i < probe->first_site + probe->n_sites; i++)
		plan_write_site(p->plan, p->snapshot, p->live, &p->live->sites[i], on);
}

static void plan_semaphore(const struct action_planner *p, size_t semaphore, uint16_t value)
{
	plan_write_semaphore(p->plan, p->snapshot, p->live, semaphore, value);
}

static void plan_semaphores(const struct action_planner *p, const struct live_probe *probe,
			    enum action_verb verb)
{
	size_t end = probe->first_semaphore + probe->n_semaphores;

	for (size_t i = probe->first_semaphore; i < end; i++) {
		uint16_t old = p->snapshot->semaphores[i];

		if (p->force)
			plan_semaphore(p, i, verb == ACTION_ENABLE);
		else if (verb == ACTION_ENABLE)
			plan_semaphore(p, i, (uint16_t)(old + 1));
		else if (old) /* a semaphore of 0 disagrees with the others, and stays 0 */
			plan_semaphore(p, i, (uint16_t)(old - 1));
	}
}

static int verify_sites(const struct action_planner *p, const struct live_probe *probe)
{
	int err = 0;

	for (size_t i = 0; !err && i < probe->n_sites; i++)
		err = verify_site(p, probe->first_site + i);
	if (err)
		ctx_error_prefix(p->ctx, "probe '%s'", probe->name);
	return err;
}

/* Add a step for one probe to the plan. */
static int plan_probe(const struct action_planner *p, size_t index, enum action_verb verb,
		      bool leave_disabled)
{
	const struct live_probe *probe = &p->live->probes[index];
	struct plan_step *step = &p->plan->steps[p->plan->n_steps];
	uint16_t count = snapshot_count(p->live, p->snapshot, index);
	int err = verify_sites(p, probe);

	if (err)
		return err;
	*step = (struct plan_step){
		.probe = index,
		.verb = verb,
		.leave_disabled = leave_disabled,
		.first_write = p->plan->n_writes,
	};
	p->plan->n_steps++;
	if (verb == ACTION_ENABLE) {
		if (count == UINT16_MAX && !p->force)
			return ctx_error(p->ctx, -ERANGE,
					 "probe '%s': is enabled %u times, which is the maximum",
					 probe->name, count);
		plan_sites(p, probe, true);
		plan_semaphores(p, probe, verb);
	} else {
		if (snapshot_state(p->live, p->snapshot, index) == OCP_DISABLED &&
		    !leave_disabled && !p->force)
			return ctx_error(p->ctx, -ERANGE, "probe '%s': is disabled already",
					 probe->name);
		plan_semaphores(p, probe, verb);
		plan_sites(p, probe, count > 1 && !p->force);
	}
	step->n_writes = p->plan->n_writes - step->first_write;
	return 0;
}

static int plan_actions(const struct action_planner *p, const struct ocp_actions *actions)
{
	struct chosen_probe *chosen;
	size_t n;
	int err = actions_resolve(p->ctx, p->live, p->images, actions, &chosen, &n);

	for (size_t i = 0; !err && i < n; i++)
		err = plan_probe(p, chosen[i].probe, chosen[i].verb, chosen[i].leave_disabled);
	free(chosen);
	return err;
}

static struct action_planner make_planner(const struct plan_context *context,
					  const struct snapshot *snapshot, struct plan *plan)
{
	return (struct action_planner){
		.ctx = context->ctx,
		.images = context->images,
		.live = context->live,
		.force = context->force,
		.snapshot = snapshot,
		.plan = plan,
	};
}

int plan_make(const struct plan_context *context, const struct ocp_actions *actions,
	      const struct snapshot *snapshot, struct plan *plan)
{
	struct action_planner planner = make_planner(context, snapshot, plan);
	int err = plan_init(context->ctx, context->live, plan);

	if (!err)
		err = plan_actions(&planner, actions);
	if (err)
		plan_free(plan);
	return err;
}

int plan_renew(const struct plan_context *context, const struct plan *plan, size_t first, size_t n,
	       const struct snapshot *snapshot, struct plan *renewed)
{
	struct action_planner planner = make_planner(context, snapshot, renewed);
	int err = plan_init(context->ctx, context->live, renewed);

	for (size_t i = first; !err && i < first + n; i++)
		err = plan_probe(&planner, plan->steps[i].probe, plan->steps[i].verb,
				 plan->steps[i].leave_disabled);
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

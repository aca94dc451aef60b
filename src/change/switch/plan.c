// SPDX-License-Identifier: MIT
#include "change/switch/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/site_form.h"
#include "program/selection.h"
#include "look/maps.h"
#include "look/proc_file.h"

/* ---- the probes that actions name ------------------------------------------------------------ */

enum { HINTED_BYTES = 100 };

enum mark { NOT_TAKEN, TAKEN_ENABLE, TAKEN_DISABLE };

struct resolver {
	struct ocp_ctx *ctx;
	const char **names; /* the names of the probes, in the order of struct live */
	struct probe_names among;
	unsigned char *marks; /* for each probe, its enum mark */
	struct plan_step *chosen;
	size_t n;
};

/* The argument of take_chosen_probe(): what to do with each probe to which an action refers. */
struct probe_taking {
	struct resolver *r;
	enum action_verb verb;
	bool leave_disabled;
};

/*
 * Add PROBE to the chosen probes. If an earlier action with the same verb has chosen PROBE already,
 * PROBE keeps its place in the order. Return -EINVAL if an earlier action has the opposite verb.
 */
static int take_chosen_probe(void *data, size_t probe)
{
	const struct probe_taking *taking = data;
	struct resolver *r = taking->r;
	enum mark mark = taking->verb == ACTION_ENABLE ? TAKEN_ENABLE : TAKEN_DISABLE;

	if (r->marks[probe] == NOT_TAKEN) {
		r->marks[probe] = (unsigned char)mark;
		r->chosen[r->n++] =
			(struct plan_step){ probe, taking->verb, taking->leave_disabled, 0, 0 };
	} else if (r->marks[probe] != mark) {
		return ctx_error(r->ctx, -EINVAL,
				 "probe '%s': cannot be enabled and disabled at once",
				 r->among.names[probe]);
	}
	return 0;
}

/*
 * If NAME, which is not the name of a probe, looks like a shell pattern or a regular expression,
 * record a hint at the action that takes a regular expression. In the hint, "job_*" becomes
 * "job_.*".
 */
static void hint_at_regexp(struct ocp_ctx *ctx, const char *name, enum action_verb verb)
{
	char re[2 * HINTED_BYTES + 1];
	size_t n = 0;

	if (!strpbrk(name, "*?[.|") || strlen(name) > HINTED_BYTES)
		return;
	for (const char *c = name; *c; c++) {
		if (*c == '*' && (c == name || (c[-1] != '.' && c[-1] != ']')))
			re[n++] = '.';
		re[n++] = *c == '?' ? '.' : *c;
	}
	re[n] = '\0';
	ctx_hint(ctx, "-%s-regexp '%s'", verb == ACTION_ENABLE ? "enable" : "disable", re);
}

static int take_name(struct resolver *r, const char *name, enum action_verb verb)
{
	struct probe_taking taking = { r, verb, false };
	int err = choose_name(r->ctx, &r->among, name, take_chosen_probe, &taking);

	if (err == -ENOENT && r->among.n)
		hint_at_regexp(r->ctx, name, verb);
	return err;
}

static int take_pair(struct resolver *r, const struct action *pair)
{
	bool enable = pair->verb == ACTION_ENABLE;
	int err = take_name(r, enable ? pair->stop : pair->text, pair->verb);

	return err ? err : take_name(r, enable ? pair->text : pair->stop, pair->verb);
}

static int take_all(struct resolver *r, enum action_verb verb)
{
	struct probe_taking taking = { r, verb, true };
	int err = 0;

	for (size_t i = 0; !err && i < r->among.n; i++)
		err = take_chosen_probe(&taking, i);
	return err;
}

static int take_matching(struct resolver *r, const struct action *action)
{
	struct probe_taking taking = { r, action->verb, true };

	return choose_matching(r->ctx, &r->among, action->text, action->re, take_chosen_probe,
			       &taking);
}

/*
 * Take the probes that the predicate of ACTION accepts. A predicate that accepts no probe is not an
 * error.
 */
static int take_wanted(struct resolver *r, const struct action *action)
{
	struct probe_taking taking = { r, action->verb, true };
	int err = 0;

	for (size_t i = 0; !err && i < r->among.n; i++)
		if (action->predicate(action->data, r->among.names[i]))
			err = take_chosen_probe(&taking, i);
	return err;
}

static int take_action(struct resolver *r, const struct action *action)
{
	switch (action->kind) {
	case ACTION_NAME:
		return take_name(r, action->text, action->verb);
	case ACTION_PAIR:
		return take_pair(r, action);
	case ACTION_REGEXP:
		return take_matching(r, action);
	default:
		return take_wanted(r, action);
	}
}

static int init_resolver(struct resolver *r, const struct live *live, const char *where)
{
	const size_t n = live->n_probes;

	r->names = calloc(n + 1, sizeof(*r->names));
	r->marks = calloc(n + 1, sizeof(*r->marks));
	r->chosen = calloc(n + 1, sizeof(*r->chosen));
	if (!r->names || !r->marks || !r->chosen)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; i < n; i++)
		r->names[i] = live->probes[i].name;
	r->among = (struct probe_names){ r->names, n, where };
	return 0;
}

int actions_resolve(struct ocp_ctx *ctx, const struct live *live, const struct ocp_actions *actions,
		    struct plan_step **chosen, size_t *n)
{
	struct resolver r = { .ctx = ctx };
	int err = init_resolver(&r, live, image_list_name(live->images));

	if (!err && actions->all)
		err = take_all(&r, actions->all_verb);
	for (size_t i = 0; !err && i < actions->n; i++)
		err = take_action(&r, &actions->list[i]);
	free(r.names);
	free(r.marks);
	if (err) {
		free(r.chosen);
		r = (struct resolver){ 0 };
	}
	*chosen = r.chosen;
	*n = r.n;
	return err;
}

/* ---- plans ----------------------------------------------------------------------------------- */

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
 * If the gate of T is private, add the write that sets the gate. If the gate is a semaphore, add
 * nothing: it is written with the other semaphores of the probe. Return the number of writes added.
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
	 * The site keeps calling its trampoline while it is off, so that hits are counted. Its
	 * opcode is the one for on, unless another tool has written another opcode.
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
		/*
		 * a semaphore that is 0, although others of the probe are higher, stays 0: 0 - 1
		 * would be 65535
		 */
		else if (old)
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

/* Add to PLAN a step that carries out ACTION, and the writes of this step. */
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

/* ---- pages of 1 GiB -------------------------------------------------------------------------- */

/*
 * Programs can place their code on 1 GiB pages to save TLB misses. The first write to such a page,
 * which is private, makes the kernel copy the whole page: that takes seconds, and needs a second
 * GiB of memory, which may not be free. /proc/PID/smaps has the page size of each mapping:
 *
 *	start-end perms ...
 *	KernelPageSize:  1048576 kB
 *
 * Reading smaps makes the kernel walk the page tables of the whole process. So /proc/PID/maps,
 * which costs little, is read first. Nearly always it shows that no mapping with code to be written
 * is aligned to 1 GiB, and smaps need not be read.
 */

#define GIGAPAGE_BYTES (UINT64_C(1) << 30)

static bool could_be_gigapages(const struct mapping *m)
{
	return m->start % GIGAPAGE_BYTES == 0 && m->end % GIGAPAGE_BYTES == 0;
}

static bool writes_code_in(uint64_t start, uint64_t end, const struct patch_write *writes, size_t n,
			   uint64_t *addr)
{
	for (size_t i = 0; i < n; i++) {
		if (writes[i].bytes == 1 && writes[i].addr >= start && writes[i].addr < end) {
			*addr = writes[i].addr;
			return true;
		}
	}
	return false;
}

bool gigatext_in_smaps(const char *text, const struct patch_write *writes, size_t n, uint64_t *addr)
{
	uint64_t start = 0, end = 0, kb;

	for (; text && *text; text = strchr(text, '\n'), text = text ? text + 1 : NULL) {
		uint64_t from, to;

		if (sscanf(text, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
			start = from;
			end = to;
		} else if (sscanf(text, "KernelPageSize: %" SCNu64 " kB", &kb) == 1 &&
			   kb * 1024 == GIGAPAGE_BYTES &&
			   writes_code_in(start, end, writes, n, addr)) {
			return true;
		}
	}
	return false;
}

static int check_smaps(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan)
{
	uint64_t addr;
	char *text;
	int err = proc_memory_file_read(ctx, pid, "smaps", &text, NULL);

	if (err)
		return err;
	if (gigatext_in_smaps(text, plan->writes, plan->n_writes, &addr)) {
		err = ctx_error(ctx, -EOVERFLOW,
				"pid %d: the code at 0x%" PRIx64
				" is on a 1 GiB page, which the kernel would have to copy",
				(int)pid, addr);
		ctx_hint(ctx, "allow the copy with -gigatext");
	}
	free(text);
	return err;
}

int gigatext_check(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan)
{
	bool possible = false;
	struct maps maps;
	uint64_t addr;
	int err;

	if (ctx_gigatext_is_allowed(ctx))
		return 0;
	err = maps_read(ctx, pid, &maps);
	if (err)
		return err;
	for (size_t i = 0; !possible && i < maps.n; i++)
		possible = could_be_gigapages(&maps.mappings[i]) &&
			   writes_code_in(maps.mappings[i].start, maps.mappings[i].end,
					  plan->writes, plan->n_writes, &addr);
	maps_free(&maps);
	return possible ? check_smaps(ctx, pid, plan) : 0;
}

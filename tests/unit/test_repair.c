// SPDX-License-Identifier: MIT
/*
 * Plans, those of repairs above all, on made-up snapshots of the fixtures: whatever sites and
 * semaphores were, they agree afterwards, a second plan has nothing to do, and a repair that is cut
 * short can be repeated.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "change/switch/repair.h"
#include "unit.h"

/* A fixture as if it ran at its link-time addresses. */
struct model {
	struct ocp_ctx *ctx;
	struct fixture fixture;
	struct image image;
	struct image_list images;
	struct live live;
	struct snapshot snapshot;
	bool force; /* of the plans to switch */
};

static void read_bytes(const struct model *m, uint64_t va, void *to, size_t n)
{
	uint64_t off;

	assert_true(elf_file_va_to_off(m->image.prog->elf, va, &off));
	memcpy(to, m->fixture.bytes + off, n);
}

static uint8_t *site_code(const struct model *m, size_t site)
{
	return m->snapshot.code + m->live.sites[site].code_at;
}

static void model_init(struct model *m, const char *name)
{
	*m = (struct model){ .ctx = ocp_ctx_new() };
	assert_non_null(m->ctx);
	fixture_load(&m->fixture, name);
	m->image.path = (char *)(uintptr_t)name;
	assert_int_equal(fixture_open(&m->fixture, m->ctx, &m->image.prog), 0);
	m->images = (struct image_list){ .images = &m->image, .n = 1 };
	assert_int_equal(live_make(m->ctx, &m->images, &m->live), 0);
	m->snapshot.live = &m->live;
	m->snapshot.code = calloc(m->live.n_code_bytes + 1, 1);
	m->snapshot.semaphores = calloc(m->live.n_semaphores + 1, sizeof(uint16_t));
	assert_non_null(m->snapshot.code);
	assert_non_null(m->snapshot.semaphores);
	for (size_t i = 0; i < m->live.n_sites; i++)
		read_bytes(m, m->live.sites[i].addr, site_code(m, i),
			   m->live.sites[i].site->n_bytes);
	for (size_t i = 0; i < m->live.n_semaphores; i++)
		read_bytes(m, m->live.semaphores[i], &m->snapshot.semaphores[i], sizeof(uint16_t));
}

static void model_free(struct model *m)
{
	free(m->snapshot.code);
	free(m->snapshot.semaphores);
	live_free(&m->live);
	ocp_program_free(m->image.prog);
	fixture_free(&m->fixture);
	ocp_ctx_free(m->ctx);
}

static void carry_out(struct model *m, const struct patch_write *w)
{
	for (size_t i = 0; w->bytes == 1 && i < m->live.n_sites; i++) {
		uint8_t *opcode = &site_code(m, i)[SITE_OPCODE_OFF];

		if (m->live.sites[i].addr + SITE_OPCODE_OFF != w->addr)
			continue;
		assert_int_equal(*opcode, w->old);
		assert_int_equal(w->phase, w->new == SITE_ON ? PATCH_SITES_ON : PATCH_SITES_OFF);
		*opcode = (uint8_t)w->new;
		return;
	}
	for (size_t i = 0; w->bytes == 2 && i < m->live.n_semaphores; i++) {
		if (m->live.semaphores[i] != w->addr)
			continue;
		assert_int_equal(m->snapshot.semaphores[i], w->old);
		assert_int_equal(w->phase, PATCH_SEMAPHORES);
		m->snapshot.semaphores[i] = w->new;
		return;
	}
	fail_msg("a write to 0x%lx, which is neither opcode nor semaphore", w->addr);
}

/* Plan, and carry out the first MAX_WRITES writes by phase. Returns how many the plan had. */
static size_t repair_as(struct model *m, struct stale_journals *stale, bool complete,
			size_t max_writes, struct ocp_repaired *repaired)
{
	struct stale_journals none = { 0 };
	struct plan plan;
	size_t n_writes, done = 0;

	assert_int_equal(
		repair_plan(m->ctx, &m->snapshot, stale ? stale : &none, complete, &plan, repaired),
		0);
	for (int phase = 0; phase < N_PATCH_PHASES; phase++)
		for (size_t i = 0; i < plan.n_writes; i++)
			if (plan.writes[i].phase == phase && done++ < max_writes)
				carry_out(m, &plan.writes[i]);
	n_writes = plan.n_writes;
	plan_free(&plan);
	return n_writes;
}

static size_t repair(struct model *m, struct stale_journals *stale, size_t max_writes,
		     struct ocp_repaired *repaired)
{
	return repair_as(m, stale, false, max_writes, repaired);
}

static size_t probe_named(const struct model *m, const char *name)
{
	ptrdiff_t probe = live_find_probe(&m->live, name);

	assert_true(probe >= 0);
	return (size_t)probe;
}

static uint16_t *semaphore_of(const struct model *m, const char *name, size_t i)
{
	const struct live_probe *probe = &m->live.probes[probe_named(m, name)];

	assert_true(i < probe->n_semaphores);
	return &m->snapshot.semaphores[probe->first_semaphore + i];
}

static uint8_t *code_of(const struct model *m, const char *name, size_t i)
{
	const struct live_probe *probe = &m->live.probes[probe_named(m, name)];

	assert_true(i < probe->n_sites);
	return site_code(m, probe->first_site + i);
}

static const char *const FIXTURES[] = {
	"v0", "v0_single", "transitional", "transitional_single", "v1", "v1_dot", "v2"
};

TEST(sound_programs_need_no_repair)
{
	struct ocp_repaired repaired;
	struct model m;

	for (size_t i = 0; i < sizeof(FIXTURES) / sizeof(FIXTURES[0]); i++) {
		model_init(&m, FIXTURES[i]);
		assert_int_equal(repair(&m, NULL, SIZE_MAX, &repaired), 0);
		assert_int_equal(repaired.probes, 0);
		model_free(&m);
	}
}

static void spoil(struct model *m, unsigned int *seed)
{
	for (size_t i = 0; i < m->live.n_sites; i++)
		site_code(m, i)[SITE_OPCODE_OFF] = rand_r(seed) % 2 ? SITE_ON : SITE_OFF;
	for (size_t i = 0; i < m->live.n_semaphores; i++)
		m->snapshot.semaphores[i] = (uint16_t)(rand_r(seed) % 4 ? 0 : rand_r(seed) % 4);
}

/* HIGHEST of each probe is what its semaphores have to be, and its sites follow. */
static void check_agreement(const struct model *m, const uint16_t *highest)
{
	for (size_t p = 0; p < m->live.n_probes; p++) {
		const struct live_probe *probe = &m->live.probes[p];

		assert_int_equal(snapshot_state(&m->snapshot, p),
				 highest[p] ? OCP_ENABLED : OCP_DISABLED);
		for (size_t i = 0; i < probe->n_semaphores; i++)
			assert_int_equal(m->snapshot.semaphores[probe->first_semaphore + i],
					 highest[p]);
	}
}

TEST(any_state_is_repaired_and_in_any_number_of_goes)
{
	unsigned int seed = 7;

	for (int round = 0; round < 700; round++) {
		struct ocp_repaired repaired;
		uint16_t highest[32] = { 0 };
		struct model m;
		size_t n;

		model_init(&m, FIXTURES[round % 7]);
		assert_true(m.live.n_probes <= 32);
		spoil(&m, &seed);
		for (size_t p = 0; p < m.live.n_probes; p++)
			for (size_t i = 0; i < m.live.probes[p].n_semaphores; i++) {
				size_t at = m.live.probes[p].first_semaphore + i;

				if (m.snapshot.semaphores[at] > highest[p])
					highest[p] = m.snapshot.semaphores[at];
			}
		/* Killed after some of the writes, twice. */
		n = repair(&m, NULL, (size_t)rand_r(&seed) % 20, &repaired);
		assert_true(repair(&m, NULL, (size_t)rand_r(&seed) % 20, &repaired) <= n);
		n = repair(&m, NULL, SIZE_MAX, &repaired);
		assert_int_equal(n, repaired.sites_on + repaired.sites_off + repaired.semaphores);
		check_agreement(&m, highest);
		assert_int_equal(repair(&m, NULL, SIZE_MAX, &repaired), 0);
		model_free(&m);
	}
}

TEST(v0_semaphores_are_brought_in_step)
{
	struct ocp_repaired repaired;
	struct model m;

	model_init(&m, "v0");
	*semaphore_of(&m, "everywhere", 1) = 2;
	*semaphore_of(&m, "everywhere", 2) = 1;
	assert_int_equal(repair(&m, NULL, SIZE_MAX, &repaired), 6);
	assert_int_equal(repaired.probes, 1);
	assert_int_equal(repaired.sites_on, 4);
	assert_int_equal(repaired.semaphores, 2);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(*semaphore_of(&m, "everywhere", i), 2);
	model_free(&m);
}

TEST(probes_with_a_damaged_site_are_left_alone)
{
	static const uint8_t opcodes[] = { 0xcc, 0x90, 0x00 };
	struct ocp_repaired repaired;
	struct model m;

	model_init(&m, "v1");
	for (size_t i = 0; i < sizeof(opcodes); i++) {
		code_of(&m, "inlined", 3)[0] = SITE_NOP;
		code_of(&m, "inlined", 3)[SITE_OPCODE_OFF] = opcodes[i];
		code_of(&m, "inlined", 4)[SITE_OPCODE_OFF] = SITE_ON;
		assert_int_equal(repair(&m, NULL, SIZE_MAX, &repaired), 0);
	}
	code_of(&m, "inlined", 3)[SITE_OPCODE_OFF] = SITE_OFF;
	code_of(&m, "inlined", 3)[0] = 0x55;
	assert_int_equal(repair(&m, NULL, SIZE_MAX, &repaired), 0);
	code_of(&m, "inlined", 3)[0] = SITE_INT3; /* somebody's uprobe */
	memset(code_of(&m, "inlined", 3) + 2, 0x7f, 4);
	assert_int_equal(repair(&m, NULL, SIZE_MAX, &repaired), 0);
	memcpy(code_of(&m, "inlined", 3) + 2, code_of(&m, "inlined", 2) + 2, 4);
	assert_int_equal(repair(&m, NULL, SIZE_MAX, &repaired), 1);
	assert_int_equal(repaired.sites_off, 1);
	model_free(&m);
}

TEST(journals_are_undone_whole_or_not)
{
	struct journal_entry entries[] = {
		{ .name = "plain", .verb = ACTION_ENABLE, .count_before = 0, .count_after = 1 },
		{ .name = "started_on", .verb = ACTION_DISABLE, .count_before = 1 },
		{ .name = "nosuch", .verb = ACTION_ENABLE, .count_before = 0, .count_after = 1 },
	};
	struct stale_journal journal = { .entries = entries, .n = 3, .n_done = 3, .n_begun = 3 };
	struct stale_journals stale = { .list = &journal, .n = 1 };
	struct ocp_repaired repaired;
	struct model m;

	model_init(&m, "v1");
	*semaphore_of(&m, "plain", 0) = 2;
	*semaphore_of(&m, "started_on", 0) = 0;
	code_of(&m, "plain", 0)[SITE_OPCODE_OFF] = SITE_INT3;
	repair(&m, &stale, SIZE_MAX, &repaired);
	assert_int_equal(repaired.undone, 0);
	assert_false(journal.settled);
	code_of(&m, "plain", 0)[SITE_OPCODE_OFF] = SITE_ON;
	repair(&m, &stale, SIZE_MAX, &repaired);
	assert_int_equal(repaired.undone, 2);
	assert_true(journal.settled);
	assert_int_equal(*semaphore_of(&m, "plain", 0), 1);
	assert_int_equal(code_of(&m, "plain", 0)[SITE_OPCODE_OFF], SITE_ON);
	assert_int_equal(*semaphore_of(&m, "started_on", 0), 1);
	assert_int_equal(code_of(&m, "started_on", 0)[SITE_OPCODE_OFF], SITE_ON);
	model_free(&m);
}

TEST(what_was_only_announced_is_not_undone)
{
	struct journal_entry entries[] = {
		{ .verb = ACTION_ENABLE, .count_before = 0, .count_after = 1 },
		{ .verb = ACTION_DISABLE, .count_before = 3, .count_after = 2 },
	};
	struct stale_journal journal = { .entries = entries, .n = 2, .n_begun = 2 };
	const struct live_probe counted = { .n_semaphores = 1 }, uncounted = { .n_semaphores = 0 };

	assert_int_equal(repair_change(&journal, 0, &counted, 0, false), 0);
	assert_int_equal(repair_change(&journal, 0, &counted, 1, false), -1);
	assert_int_equal(repair_change(&journal, 1, &counted, 3, false), 0);
	assert_int_equal(repair_change(&journal, 1, &counted, 2, false), +1);
	entries[0].count_before = entries[1].count_before = JOURNAL_UNKNOWN;
	assert_int_equal(repair_change(&journal, 0, &counted, 1, false), -1);
	/* No counter falls below 0 or overflows. */
	assert_int_equal(repair_change(&journal, 0, &counted, 0, false), 0);
	assert_int_equal(repair_change(&journal, 1, &counted, UINT16_MAX, false), 0);
	/* Without a semaphore a probe is on or off. */
	assert_int_equal(repair_change(&journal, 0, &uncounted, 1, false), -1);
	assert_int_equal(repair_change(&journal, 1, &uncounted, 0, false), +1);
	assert_int_equal(repair_change(&journal, 1, &uncounted, 1, false), 0);
	journal.n_done = 2;
	entries[0].count_before = 1;
	assert_int_equal(repair_change(&journal, 0, &counted, 1, false), 0);
	entries[0].count_after = 2;
	assert_int_equal(repair_change(&journal, 0, &counted, 1, false), -1);
	/* A promise is never completed. */
	assert_int_equal(repair_change(&journal, 0, &counted, 1, true), -1);
}

/* -force sets a counter outright: what it was is not one more or one less. */
TEST(an_update_is_undone_or_completed)
{
	struct journal_entry entries[] = {
		{ .name = "inlined", .verb = ACTION_DISABLE, .count_before = 5, .count_after = 0 },
		{ .name = "plain", .verb = ACTION_ENABLE, .count_before = 0, .count_after = 1 },
		{ .name = "started_on", .verb = ACTION_DISABLE, .count_before = 3 },
	};
	struct stale_journal journal = {
		.kind = JOURNAL_UPDATE, .entries = entries, .n = 3, .n_done = 1, .n_begun = 2
	};
	struct stale_journals stale = { .list = &journal, .n = 1 };

	for (int complete = 0; complete < 2; complete++) {
		struct ocp_repaired repaired;
		struct model m;

		model_init(&m, "v1");
		/* Killed when the second one had its site on; somebody enables the third. */
		*semaphore_of(&m, "inlined", 0) = 0;
		code_of(&m, "plain", 0)[SITE_OPCODE_OFF] = SITE_ON;
		*semaphore_of(&m, "started_on", 0) = 4;
		repair_as(&m, &stale, complete, SIZE_MAX, &repaired);
		assert_true(journal.settled);
		assert_int_equal(repaired.undone, complete ? 0 : 1);
		assert_int_equal(repaired.completed, complete ? 2 : 0);
		assert_int_equal(*semaphore_of(&m, "inlined", 0), complete ? 0 : 5);
		assert_int_equal(*semaphore_of(&m, "plain", 0), complete ? 1 : 0);
		assert_int_equal(*semaphore_of(&m, "started_on", 0), complete ? 1 : 4);
		assert_int_equal(code_of(&m, "plain", 0)[SITE_OPCODE_OFF],
				 complete ? SITE_ON : SITE_OFF);
		model_free(&m);
	}
}

/* Plan to switch all probes, and carry it out. Returns what the planner said. */
static int switch_all(struct model *m, bool enable)
{
	struct ocp_actions *actions = ocp_actions_new(m->ctx);
	struct plan plan;
	int err;

	assert_int_equal(
		enable ? ocp_actions_enable_all(actions) : ocp_actions_disable_all(actions), 0);
	err = plan_make(m->ctx, actions, &m->snapshot, m->force, &plan);
	for (int phase = 0; !err && phase < N_PATCH_PHASES; phase++)
		for (size_t i = 0; i < plan.n_writes; i++)
			if (plan.writes[i].phase == phase)
				carry_out(m, &plan.writes[i]);
	if (!err)
		plan_free(&plan);
	ocp_actions_free(actions);
	return err;
}

/* A program that asks its semaphore sees handlers only where its sites are on: carry_out asks. */
TEST(sites_are_on_while_semaphores_are_raised)
{
	struct model m;

	assert_true(PATCH_SITES_ON < PATCH_SEMAPHORES && PATCH_SEMAPHORES < PATCH_SITES_OFF);
	for (size_t i = 0; i < sizeof(FIXTURES) / sizeof(*FIXTURES); i++) {
		model_init(&m, FIXTURES[i]);
		assert_int_equal(switch_all(&m, true), 0);
		for (size_t j = 0; j < m.live.n_probes; j++)
			assert_int_equal(snapshot_state(&m.snapshot, j), OCP_ENABLED);
		while (snapshot_state(&m.snapshot, 0) == OCP_ENABLED)
			assert_int_equal(switch_all(&m, false), 0);
		model_free(&m);
	}
}

TEST(full_counters_are_not_raised)
{
	struct model m;

	model_init(&m, "v1");
	assert_int_equal(switch_all(&m, true), 0);
	for (size_t i = 0; i < m.live.n_semaphores; i++)
		m.snapshot.semaphores[i] = UINT16_MAX - 1;
	assert_int_equal(switch_all(&m, true), 0);
	for (size_t i = 0; i < m.live.n_semaphores; i++)
		assert_int_equal(m.snapshot.semaphores[i], UINT16_MAX);
	assert_int_equal(switch_all(&m, true), -ERANGE);
	assert_non_null(strstr(ocp_error(m.ctx), "is enabled 65535 times, which is the maximum"));
	for (size_t i = 0; i < m.live.n_semaphores; i++)
		assert_int_equal(m.snapshot.semaphores[i], UINT16_MAX);
	m.force = true;
	assert_int_equal(switch_all(&m, true), 0);
	for (size_t i = 0; i < m.live.n_semaphores; i++)
		assert_int_equal(m.snapshot.semaphores[i], 1);
	model_free(&m);
}

/* Whatever of it comes first: no plan is made where one site is not what it has to be. */
TEST(nothing_is_planned_for_damaged_sites)
{
	struct model m;

	model_init(&m, "v1");
	for (size_t i = 0; i < m.live.n_sites; i++) {
		uint8_t *opcode = &site_code(&m, i)[SITE_OPCODE_OFF];
		const uint8_t before = *opcode;

		*opcode = 0xcc;
		assert_int_equal(switch_all(&m, true), -EILSEQ);
		assert_non_null(strstr(ocp_error(m.ctx), "probe '"));
		assert_int_equal(switch_all(&m, false), -EILSEQ);
		*opcode = before;
	}
	assert_int_equal(switch_all(&m, true), 0);
	model_free(&m);
}

/* Planned again, as when the process has changed: the same steps, on what is there now. */
TEST(plans_are_renewed_for_what_is_there_now)
{
	struct ocp_actions *actions;
	struct plan plan, renewed;
	struct model m;

	model_init(&m, "v1");
	actions = ocp_actions_new(m.ctx);
	assert_int_equal(ocp_actions_enable_all(actions), 0);
	assert_int_equal(plan_make(m.ctx, actions, &m.snapshot, false, &plan), 0);
	assert_int_equal(plan_renew(&plan, 1, 2, &renewed), 0);
	assert_int_equal(renewed.n_steps, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(renewed.steps[i].probe, plan.steps[i + 1].probe);
		assert_int_equal(renewed.steps[i].n_writes, plan.steps[i + 1].n_writes);
	}
	plan_free(&renewed);
	code_of(&m, m.live.probes[plan.steps[2].probe].name, 0)[SITE_OPCODE_OFF] = 0xcc;
	assert_int_equal(plan_renew(&plan, 1, 2, &renewed), -EILSEQ);
	assert_int_equal(plan_renew(&plan, 1, 1, &renewed), 0);
	plan_free(&renewed);
	plan_free(&plan);
	ocp_actions_free(actions);
	model_free(&m);
}

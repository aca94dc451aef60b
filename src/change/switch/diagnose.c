// SPDX-License-Identifier: MIT
/*
 * Finding inconsistencies in a process: between sites and their semaphores, between semaphores,
 * between the bytes of a site and the ABI, between tracers' counters and tracers, and between the
 * process and the journals of killed tools.
 *
 * The process runs meanwhile, and other tools may switch probes. Such a tool switches whole probes
 * while the process is stopped. But this code reads the process over some time, so it may see some
 * bytes as they were before the switch, and others as they are after the switch. So if something
 * disagrees, everything is read again until two readings in a row are the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/plural.h"
#include "change/switch/journal.h"
#include "process/process.h"
#include "change/switch/repair.h"
#include "process/site_form.h"

enum { MAX_READINGS = 20, BETWEEN_READINGS_NS = 50000000 };

struct ocp_findings {
	struct ocp_finding *list;
	size_t n;
	char **names; /* copies of names from journals, freed with the findings */
	size_t n_names;
};

struct process_examiner {
	struct ocp_process *proc;
	const struct ocp_sites *sites;
	struct ocp_findings *findings;
	const char *no_semaphore; /* the name of the first probe without a semaphore */
	size_t n_no_semaphore;	  /* the number of probes without a semaphore */
	/* the numbers of sites counted inside the process, and of their probes */
	size_t n_inside, n_inside_probes;
	int err;
};

static const struct {
	const char *name, *cause;
	bool is_disagreement, is_repairable;
} kinds[] = {
	[OCP_SITES_ON] = { "sites-on",
			   "a tool was killed while it switched the probe, or a part of the "
			   "program was compiled with the probe enabled and another was not",
			   true, true },
	[OCP_SITES_OFF] = { "sites-off",
			    "a part of the program was compiled with the probe enabled and another "
			    "was not, it was loaded after the probe had been enabled, or another "
			    "tool removed a uprobe from the opcode",
			    true, true },
	[OCP_OUT_OF_STEP] = { "out-of-step",
			      "a tool was killed while it switched the probe, or a part of the "
			      "program was compiled with the probe enabled or loaded later",
			      true, true },
	[OCP_DAMAGED_SITE] = { "damaged-site",
			       "a debugger's breakpoint or another program's patch; the probe "
			       "cannot be switched until it is removed",
			       true, false },
	[OCP_TRACER_SEMAPHORE] = { "tracer-semaphore",
				   "a tracer leaked it or wrote it by hand; it does not slow the "
				   "probe down, and only a restart of the process clears it safely",
				   true, false },
	[OCP_LEFT_SWITCHED] = { "left-switched", "the tool was killed before it could undo it",
				true, true },
	[OCP_NO_SEMAPHORE] = { "no-semaphore",
			       "the linker dropped it (--gc-sections); the probe is switched by "
			       "its sites alone, and enabling it twice counts once",
			       false, false },
	[OCP_INTERRUPTED] = { "interrupted-update",
			      "`doctor --fix` undoes it, `doctor --fix=complete` completes it",
			      true, true },
	[OCP_COUNTED_INSIDE] = { "counted-inside",
				 "their calls lead to trampolines; no disagreement", false, false },
	[OCP_UNCOUNTED] = { "uncounted-sites",
			    "another tool has written their opcodes; their hits are not counted",
			    true, true },
	[OCP_HELD_SITES] = { "held-sites", "another program counts or traces them; no disagreement",
			     false, false },
};

__attribute__((format(printf, 4, 5))) static void report_finding(struct process_examiner *e,
								 enum ocp_finding_kind kind,
								 const char *probe, const char *fmt,
								 ...)
{
	struct ocp_findings *f = e->findings;
	struct ocp_finding *new;
	va_list ap;

	new = array_add(f->list, f->n);
	if (!new) {
		e->err = ctx_no_memory(e->proc->ctx);
		return;
	}
	*new = (struct ocp_finding){
		.kind = kind,
		.name = kinds[kind].name,
		.probe = probe,
		.cause = kinds[kind].cause,
		.is_disagreement = kinds[kind].is_disagreement,
		.is_repairable = kinds[kind].is_repairable,
	};
	va_start(ap, fmt);
	if (vasprintf(&new->what, fmt, ap) < 0) {
		f->n--;
		e->err = ctx_no_memory(e->proc->ctx);
	}
	va_end(ap);
}

/* Counts over the sites [first, end) of one probe. */
struct tally {
	size_t code, on, off, damaged, int3, inside, uncounted;
	bool has_semaphore;
	int lowest, highest; /* the lowest and the highest of the probe's semaphores */
};

static void report_damage(struct process_examiner *e, const char *name, const struct ocp_site *s)
{
	char code[SITE_CODE_TEXT_BYTES];

	site_code_text(s->code, s->n_code, code);
	if (s->source)
		report_finding(e, OCP_DAMAGED_SITE, name, "site 0x%" PRIx64 " (%s, %s:%d): %s:%s",
			       s->addr, s->image, s->source, s->line, s->fault, code);
	else
		report_finding(e, OCP_DAMAGED_SITE, name, "site 0x%" PRIx64 " (%s): %s:%s", s->addr,
			       s->image, s->fault, code);
}

/* Return true if site S has a trampoline, but does not call it: its hits are not counted. */
static bool is_uncounted(const struct ocp_site *s)
{
	return s->has_trampoline && s->code[s->opcode_at] == SITE_OFF;
}

static struct tally count_sites(struct process_examiner *e, const char *name, size_t first,
				size_t end)
{
	struct tally t = { .lowest = UINT16_MAX };

	for (size_t i = first; i < end; i++) {
		const struct ocp_site *s = ocp_sites_get(e->sites, i);

		t.code += s->has_code;
		t.on += s->state == OCP_SITE_ON;
		t.off += s->state == OCP_SITE_OFF;
		t.int3 += s->has_int3;
		t.inside += s->has_trampoline;
		t.uncounted += is_uncounted(s);
		t.has_semaphore |= s->semaphore >= 0;
		if (s->semaphore >= 0 && s->semaphore < t.lowest)
			t.lowest = s->semaphore;
		if (s->semaphore > t.highest)
			t.highest = s->semaphore;
		if (s->state != OCP_SITE_DAMAGED)
			continue;
		t.damaged++;
		report_damage(e, name, s);
	}
	return t;
}

/*
 * Report each tracers' semaphore that is raised although no site has an int3. The sites of one
 * probe in one image share one tracers' semaphore, if their ABI has any.
 */
static void diagnose_tracers(struct process_examiner *e, const char *name, size_t first, size_t end)
{
	for (size_t i = first, next; i < end; i = next) {
		const struct ocp_site *s = ocp_sites_get(e->sites, i);
		bool held = false;

		for (next = i; next < end; next++) {
			const struct ocp_site *other = ocp_sites_get(e->sites, next);

			if (other->tracer_semaphore_addr != s->tracer_semaphore_addr)
				break;
			/* An int3 may be hidden in a damaged site: assume that there is one. */
			held |= other->has_int3 || other->state == OCP_SITE_DAMAGED;
		}
		if (s->tracer_semaphore > 0 && !held)
			report_finding(e, OCP_TRACER_SEMAPHORE, name,
				       "the tracers' semaphore at 0x%" PRIx64
				       " is %d, but no site has an int3",
				       s->tracer_semaphore_addr, s->tracer_semaphore);
	}
}

static void compare_with_semaphores(struct process_examiner *e, const char *name,
				    const struct tally *t)
{
	if (t->highest == 0 && t->on)
		report_finding(e, OCP_SITES_ON, name,
			       "%zu of %zu sites are on, but its semaphore is 0", t->on, t->code);
	if (t->highest > 0 && t->off)
		report_finding(e, OCP_SITES_OFF, name,
			       "%zu of %zu sites are off, but its semaphore is %d", t->off, t->code,
			       t->highest);
	if (t->highest != t->lowest)
		report_finding(e, OCP_OUT_OF_STEP, name,
			       "its semaphores are out of step: the lowest is %d, the highest %d",
			       t->lowest, t->highest);
}

static void compare_with_each_other(struct process_examiner *e, const char *name,
				    const struct tally *t)
{
	if (e->n_no_semaphore++ == 0)
		e->no_semaphore = name;
	if (t->on && t->off)
		report_finding(
			e, OCP_SITES_ON, name,
			"%zu of %zu sites are on, and it has no semaphore to say which are right",
			t->on, t->code);
}

static void diagnose_probe(struct process_examiner *e, const char *name, size_t first, size_t end)
{
	struct tally t = count_sites(e, name, first, end);
	/* A probe with a damaged site is not repaired: see repair.c. */
	size_t before = e->findings->n;

	if (t.has_semaphore)
		compare_with_semaphores(e, name, &t);
	else
		compare_with_each_other(e, name, &t);
	if (t.uncounted)
		report_finding(e, OCP_UNCOUNTED, name,
			       "%zu of %zu sites do not call their trampolines", t.uncounted,
			       t.code);
	for (size_t i = before; t.damaged && i < e->findings->n; i++)
		e->findings->list[i].is_repairable = false;
	diagnose_tracers(e, name, first, end);
	e->n_inside += t.inside - t.uncounted;
	e->n_inside_probes += t.inside > t.uncounted;
	if (t.int3)
		report_finding(e, OCP_HELD_SITES, name,
			       "%zu of %zu sites have an int3 of a uprobe or breakpoint", t.int3,
			       t.code);
}

/* Copy NAME, the name of an entry of a journal. The copy is freed with the findings. */
static const char *copy_journal_name(struct process_examiner *e, const char *name)
{
	char *copy = strdup(name);
	char **new = copy ? array_add(e->findings->names, e->findings->n_names) : NULL;

	if (!new) {
		free(copy);
		e->err = ctx_no_memory(e->proc->ctx);
		return "";
	}
	*new = copy;
	return copy;
}

/* Report all probes without a semaphore in one note. */
static void report_no_semaphores(struct process_examiner *e)
{
	const size_t others = e->n_no_semaphore - 1;

	if (!e->n_no_semaphore)
		return;
	if (others)
		report_finding(e, OCP_NO_SEMAPHORE, e->no_semaphore,
			       "it and %zu other probe%s have no semaphore", others,
			       others == 1 ? "" : "s");
	else
		report_finding(e, OCP_NO_SEMAPHORE, e->no_semaphore, "it has no semaphore");
}

static void report_inside(struct process_examiner *e)
{
	if (e->n_inside)
		report_finding(e, OCP_COUNTED_INSIDE, NULL,
			       "%zu site%s of %zu probe%s are counted inside the process",
			       e->n_inside, plural(e->n_inside), e->n_inside_probes,
			       plural(e->n_inside_probes));
}

/* Report each probe that a killed tool has switched and would have switched back later. */
static void diagnose_promise(struct process_examiner *e, const struct snapshot *snapshot,
			     const struct stale_journal *journal)
{
	for (size_t i = 0; !e->err && i < journal->n; i++) {
		const struct journal_entry *entry = &journal->entries[i];
		ptrdiff_t probe = live_find_probe(&e->proc->live, entry->name);
		bool enabled = entry->verb == ACTION_ENABLE;

		if (probe < 0 || repair_change(journal, i, &e->proc->live.probes[probe],
					       snapshot_count(snapshot, (size_t)probe), false) == 0)
			continue;
		report_finding(e, OCP_LEFT_SWITCHED, copy_journal_name(e, entry->name),
			       "left %s by ocaml-probes pid %d, which was killed: to be %s",
			       enabled ? "on" : "off", (int)journal->tool,
			       enabled ? "disabled" : "enabled");
	}
}

static void report_update(struct process_examiner *e, const struct snapshot *snapshot,
			  const struct stale_journal *journal, size_t n, size_t n_done)
{
	size_t before = e->findings->n;

	report_finding(e, OCP_INTERRUPTED, NULL,
		       "an update of %zu probe%s was interrupted after %zu, when pid %d was killed",
		       n, plural(n), n_done, (int)journal->tool);
	if (e->findings->n > before)
		e->findings->list[before].is_repairable = repair_can_settle(snapshot, journal);
}

/*
 * Report an update in which the tool was killed. But if none of the update's actions was done, or
 * all were, report nothing and delete the journal.
 */
static void diagnose_update(struct process_examiner *e, const struct snapshot *snapshot,
			    const struct stale_journal *journal)
{
	const struct live *live = &e->proc->live;
	size_t n = 0, n_done = 0, n_half = 0;

	for (size_t i = 0; i < journal->n; i++) {
		ptrdiff_t probe = live_find_probe(live, journal->entries[i].name);

		if (probe < 0)
			continue;
		n++;
		if (i >= journal->n_done && i < journal->n_begun &&
		    snapshot_state(snapshot, (size_t)probe) == OCP_MIXED)
			n_half++;
		else
			n_done += journal_was_done(journal, i,
						   snapshot_count(snapshot, (size_t)probe));
	}
	if (n_half || (n_done && n_done < n))
		report_update(e, snapshot, journal, n, n_done);
	else
		e->err = journal_remove_stale(e->proc->ctx, journal);
}

static void diagnose_journals(struct process_examiner *e)
{
	struct snapshot snapshot = { 0 };
	struct stale_journals stale;

	e->err = journal_find_stale(e->proc->ctx, e->proc->pid, &stale);
	if (e->err)
		return;
	if (stale.n)
		e->err = snapshot_read(e->proc->ctx, e->proc->memory, &e->proc->live, &snapshot);
	for (size_t i = 0; !e->err && i < stale.n; i++) {
		if (stale.list[i].kind == JOURNAL_UPDATE)
			diagnose_update(e, &snapshot, &stale.list[i]);
		else
			diagnose_promise(e, &snapshot, &stale.list[i]);
	}
	snapshot_free(&snapshot);
	journal_free_stale(&stale);
}

static void diagnose_sites(struct process_examiner *e)
{
	size_t n = ocp_sites_count(e->sites);

	for (size_t first = 0, end; !e->err && first < n; first = end) {
		size_t probe = ocp_sites_get(e->sites, first)->probe;

		for (end = first; end < n && ocp_sites_get(e->sites, end)->probe == probe;)
			end++;
		diagnose_probe(e, ocp_process_probe_name(e->proc, probe), first, end);
	}
	report_no_semaphores(e);
	report_inside(e);
}

static bool disagrees(const struct ocp_findings *findings)
{
	for (size_t i = 0; i < findings->n; i++)
		if (findings->list[i].is_disagreement)
			return true;
	return false;
}

static const char *name_in(const struct ocp_finding *finding)
{
	return finding->probe ? finding->probe : "";
}

/* Return true if A and B have the same findings. A may be NULL. */
static bool same_findings(const struct ocp_findings *a, const struct ocp_findings *b)
{
	if (!a || a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->list[i].kind != b->list[i].kind ||
		    strcmp(name_in(&a->list[i]), name_in(&b->list[i])) != 0 ||
		    strcmp(a->list[i].what, b->list[i].what) != 0)
			return false;
	return true;
}

/*
 * Find the source lines, but only if a site is damaged: only the reports of damaged sites have
 * lines.
 */
static int place_damaged(struct ocp_process *proc, struct ocp_sites *sites)
{
	for (size_t i = 0; i < ocp_sites_count(sites); i++)
		if (ocp_sites_get(sites, i)->state == OCP_SITE_DAMAGED)
			return sites_place(proc, sites);
	return 0;
}

static int diagnose_once(struct ocp_process *proc, struct ocp_findings **out)
{
	struct process_examiner e = { .proc = proc, .findings = calloc(1, sizeof(*e.findings)) };
	struct ocp_sites *sites = NULL;

	*out = NULL;
	e.err = e.findings ? ocp_sites_read(proc, 0, &sites) : ctx_no_memory(proc->ctx);
	e.sites = sites;
	if (!e.err)
		e.err = place_damaged(proc, sites);
	if (!e.err)
		diagnose_journals(&e);
	if (!e.err)
		diagnose_sites(&e);
	ocp_sites_free(sites);
	if (e.err)
		ocp_findings_free(e.findings);
	else
		*out = e.findings;
	return e.err;
}

int ocp_process_diagnose(struct ocp_process *proc, struct ocp_findings **out)
{
	const struct timespec pause = { .tv_nsec = BETWEEN_READINGS_NS };
	struct ocp_findings *before = NULL, *now = NULL;
	int err = 0;

	for (int i = 0; i < MAX_READINGS; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		err = diagnose_once(proc, &now);
		if (err || !disagrees(now) || same_findings(before, now))
			break;
		ocp_findings_free(before);
		before = now;
		now = NULL;
	}
	/* The readings kept changing: report the most recent one. */
	if (!err && !now) {
		now = before;
		before = NULL;
	}
	ocp_findings_free(before);
	*out = now;
	return err;
}

void ocp_findings_free(struct ocp_findings *findings)
{
	if (!findings)
		return;
	for (size_t i = 0; i < findings->n; i++)
		free(findings->list[i].what);
	for (size_t i = 0; i < findings->n_names; i++)
		free(findings->names[i]);
	free(findings->list);
	free(findings->names);
	free(findings);
}

size_t ocp_findings_count(const struct ocp_findings *findings)
{
	return findings->n;
}

const struct ocp_finding *ocp_findings_get(const struct ocp_findings *findings, size_t finding)
{
	return &findings->list[finding];
}

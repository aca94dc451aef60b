// SPDX-License-Identifier: MIT
/*
 * What disagrees in a process: its sites with their semaphores, its semaphores with each other,
 * bytes with the ABI, tracers' counters with tracers, and the process with what a killed tool had
 * promised.
 *
 * The process runs meanwhile, and other tools may be at work: each of their stops leaves whole
 * probes, but reading is spread over time. So whenever something disagrees all is read again, until
 * two readings in a row are the same; a disagreement that lasts is one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "process/journal.h"
#include "process/process.h"
#include "process/repair.h"
#include "process/site_form.h"

enum { MAX_READINGS = 20, BETWEEN_READINGS_NS = 50000000 };

struct ocp_findings {
	struct ocp_finding *list;
	size_t n, room;
	char **names; /* that belong to no probe of the process */
	size_t n_names;
};

struct examiner {
	struct ocp_process *proc;
	const struct ocp_sites *sites;
	struct ocp_findings *findings;
	int err;
};

static const struct {
	const char *name, *cause;
	bool is_disagreement, is_repairable;
} kinds[] = {
	[OCP_SITES_ON] = { "sites-on",
			   "a tool was killed while it switched the probe, or a part of the program "
			   "was compiled with the probe enabled and another was not",
			   true, true },
	[OCP_SITES_OFF] = { "sites-off",
			    "a part of the program was compiled with the probe enabled and another "
			    "was not, it was loaded after the probe had been enabled, or another "
			    "tool's uprobe went off the opcode",
			    true, true },
	[OCP_OUT_OF_STEP] = { "out-of-step",
			      "a tool was killed while it switched the probe, or a part of the "
			      "program was compiled with the probe enabled or loaded later",
			      true, true },
	[OCP_DAMAGED_SITE] = { "damaged-site",
			       "a debugger's breakpoint or somebody's patch: whoever wrote it has to "
			       "take it back; the probe cannot be switched until then",
			       true, false },
	[OCP_TRACER_SEMAPHORE] = { "tracer-semaphore",
				   "a tracer leaked it, or wrote it by hand; it makes the probe no "
				   "slower, only a restart of the process clears it safely",
				   true, false },
	[OCP_LEFT_SWITCHED] = { "left-switched", "that tool was killed before it undid it", true,
				true },
	[OCP_HELD_SITES] = { "held-sites", "somebody counts or traces them; no disagreement", false,
			     false },
};

__attribute__((format(printf, 4, 5))) static void
report(struct examiner *e, enum ocp_finding_kind kind, const char *probe, const char *fmt, ...)
{
	struct ocp_findings *f = e->findings;
	va_list ap;
	int n;

	if (f->n == f->room) {
		size_t room = f->room ? 2 * f->room : 16;
		struct ocp_finding *larger = reallocarray(f->list, room, sizeof(*larger));

		if (!larger) {
			e->err = ctx_no_memory(e->proc->ctx);
			return;
		}
		f->list = larger;
		f->room = room;
	}
	f->list[f->n] = (struct ocp_finding){
		.kind = kind,
		.name = kinds[kind].name,
		.probe = probe,
		.cause = kinds[kind].cause,
		.is_disagreement = kinds[kind].is_disagreement,
		.is_repairable = kinds[kind].is_repairable,
	};
	va_start(ap, fmt);
	n = vasprintf(&f->list[f->n].what, fmt, ap);
	va_end(ap);
	if (n < 0)
		e->err = ctx_no_memory(e->proc->ctx);
	else
		f->n++;
}

/* What the sites [first, end) of one probe amount to. */
struct tally {
	size_t code, on, off, damaged, int3;
	int lowest, highest; /* of its semaphores */
};

static void report_damage(struct examiner *e, const char *name, const struct ocp_site *s)
{
	char code[SITE_CODE_TEXT_BYTES];

	report(e, OCP_DAMAGED_SITE, name, "site 0x%" PRIx64 " (%s): %s:%s", s->addr, s->image,
	       s->fault, site_code_text(s->code, s->n_code, code));
}

static struct tally count_sites(struct examiner *e, const char *name, size_t first, size_t end)
{
	struct tally t = { .lowest = UINT16_MAX };

	for (size_t i = first; i < end; i++) {
		const struct ocp_site *s = ocp_sites_get(e->sites, i);

		t.code += s->has_code;
		t.on += s->state == OCP_SITE_ON;
		t.off += s->state == OCP_SITE_OFF;
		t.int3 += s->has_int3;
		if (s->semaphore < t.lowest)
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

/* One image's sites of one probe share a tracers' semaphore, in all generations that have one. */
static void examine_tracers(struct examiner *e, const char *name, size_t first, size_t end)
{
	for (size_t i = first, next; i < end; i = next) {
		const struct ocp_site *s = ocp_sites_get(e->sites, i);
		bool held = false;

		for (next = i; next < end; next++) {
			const struct ocp_site *other = ocp_sites_get(e->sites, next);

			if (other->tracer_semaphore_addr != s->tracer_semaphore_addr)
				break;
			/* A damaged site hides what is on it. */
			held |= other->has_int3 || other->state == OCP_SITE_DAMAGED;
		}
		if (s->tracer_semaphore > 0 && !held)
			report(e, OCP_TRACER_SEMAPHORE, name,
			       "the tracers' semaphore at 0x%" PRIx64
			       " is %d, but no site has an int3",
			       s->tracer_semaphore_addr, s->tracer_semaphore);
	}
}

static void examine_probe(struct examiner *e, const char *name, size_t first, size_t end)
{
	struct tally t = count_sites(e, name, first, end);
	/* Of a probe with a damaged site nothing is repaired: see repair.c. */
	size_t before = e->findings->n;

	if (t.highest == 0 && t.on)
		report(e, OCP_SITES_ON, name, "%zu of %zu sites are on, but its semaphore is 0",
		       t.on, t.code);
	if (t.highest > 0 && t.off)
		report(e, OCP_SITES_OFF, name, "%zu of %zu sites are off, but its semaphore is %d",
		       t.off, t.code, t.highest);
	if (t.highest != t.lowest)
		report(e, OCP_OUT_OF_STEP, name,
		       "its semaphores are out of step: the lowest is %d, the highest %d", t.lowest,
		       t.highest);
	for (size_t i = before; t.damaged && i < e->findings->n; i++)
		e->findings->list[i].is_repairable = false;
	examine_tracers(e, name, first, end);
	if (t.int3)
		report(e, OCP_HELD_SITES, name,
		       "%zu of %zu sites have an int3 of a uprobe or breakpoint", t.int3, t.code);
}

/* The name of a journal's entry, kept as long as the findings. */
static const char *keep_name(struct examiner *e, const char *name)
{
	char **larger = reallocarray(e->findings->names, e->findings->n_names + 1, sizeof(*larger));
	char *copy = larger ? strdup(name) : NULL;

	if (larger)
		e->findings->names = larger;
	if (!copy) {
		e->err = ctx_no_memory(e->proc->ctx);
		return "";
	}
	return e->findings->names[e->findings->n_names++] = copy;
}

/* The highest counter of a probe, -1 if there is no such probe. Sites stand together by probe. */
static int counter_of(const struct examiner *e, const char *name)
{
	size_t n = ocp_sites_count(e->sites), low = 0, high = n;
	ptrdiff_t probe = live_find_probe(&e->proc->live, name);
	int highest = -1;

	if (probe < 0)
		return -1;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ocp_sites_get(e->sites, middle)->probe < (size_t)probe)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < n && ocp_sites_get(e->sites, low)->probe == (size_t)probe; low++)
		if (ocp_sites_get(e->sites, low)->semaphore > highest)
			highest = ocp_sites_get(e->sites, low)->semaphore;
	return highest;
}

static void examine_journals(struct examiner *e)
{
	struct stale_journals stale;

	e->err = journal_find_stale(e->proc->ctx, e->proc->pid, &stale);
	if (e->err)
		return;
	for (size_t i = 0; i < stale.n; i++) {
		for (size_t j = 0; !e->err && j < stale.list[i].n; j++) {
			const struct journal_entry *entry = &stale.list[i].entries[j];
			bool enabled = entry->verb == ACTION_ENABLE;
			int count = counter_of(e, entry->name);

			if (count < 0 ||
			    repair_undo_change(&stale.list[i], entry, (uint16_t)count) == 0)
				continue;
			report(e, OCP_LEFT_SWITCHED, keep_name(e, entry->name),
			       "left %s by ocaml-probes pid %d, which was killed: to be %s",
			       enabled ? "on" : "off", (int)stale.list[i].tool,
			       enabled ? "disabled" : "enabled");
		}
	}
	journal_free_stale(&stale);
}

static void examine_sites(struct examiner *e)
{
	size_t n = ocp_sites_count(e->sites);

	for (size_t first = 0, end; !e->err && first < n; first = end) {
		size_t probe = ocp_sites_get(e->sites, first)->probe;

		for (end = first; end < n && ocp_sites_get(e->sites, end)->probe == probe;)
			end++;
		examine_probe(e, ocp_process_probe_name(e->proc, probe), first, end);
	}
}

static bool disagrees(const struct ocp_findings *findings)
{
	for (size_t i = 0; i < findings->n; i++)
		if (findings->list[i].is_disagreement)
			return true;
	return false;
}

/* Do both say the same? */
static bool same(const struct ocp_findings *a, const struct ocp_findings *b)
{
	if (!a || a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->list[i].kind != b->list[i].kind ||
		    strcmp(a->list[i].probe, b->list[i].probe) != 0 ||
		    strcmp(a->list[i].what, b->list[i].what) != 0)
			return false;
	return true;
}

static int examine_once(struct ocp_process *proc, struct ocp_findings **out)
{
	struct examiner e = { .proc = proc, .findings = calloc(1, sizeof(*e.findings)) };
	struct ocp_sites *sites = NULL;

	*out = NULL;
	e.err = e.findings ? ocp_sites_read(proc, 0, &sites) : ctx_no_memory(proc->ctx);
	e.sites = sites;
	if (!e.err)
		examine_sites(&e);
	if (!e.err)
		examine_journals(&e);
	ocp_sites_free(sites);
	if (e.err)
		ocp_findings_free(e.findings);
	else
		*out = e.findings;
	return e.err;
}

int ocp_process_examine(struct ocp_process *proc, struct ocp_findings **out)
{
	const struct timespec pause = { .tv_nsec = BETWEEN_READINGS_NS };
	struct ocp_findings *before = NULL, *now = NULL;
	int err = 0;

	for (int i = 0; i < MAX_READINGS; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		err = examine_once(proc, &now);
		if (err || !disagrees(now) || same(before, now))
			break;
		ocp_findings_free(before);
		before = now;
		now = NULL;
	}
	/* It never settled: the last reading is the best there is. */
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

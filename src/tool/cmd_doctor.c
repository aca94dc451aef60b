// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/plural.h"
#include "change/inside/inside.h"
#include "measure/unheld_int3s.h"
#include "process/holders.h"
#include "tool/json.h"

enum { COUNTED_TEXT_BYTES = 96 };

/* Numbers of sites of probes, and of functions and lines, that are counted inside the process. */
struct counted_inside {
	size_t sites, functions;
};

struct diagnosis {
	struct ocp_findings *findings;
	struct holders holders; /* holders of sites with an int3 */
	struct unheld_int3s unheld;
	struct counted_inside inside;
};

/* The result of --fix: what was repaired, and what was not. */
struct repair_outcome {
	struct ocp_repaired repaired;
	struct ocp_findings *left;
	size_t n_int3s; /* number of int3s removed */
	struct unheld_int3s unheld;
	/*
	 * why int3s without a holder could not be removed; NULL: unknown, perhaps another uprobe
	 * uses them
	 */
	const char *why_unheld;
};

static bool counts_inside(const struct counted_inside *counted)
{
	return counted->sites || counted->functions;
}

/* Return true if there are int3s without a holder, and it is certain that they have none. */
static bool are_left_over(const struct unheld_int3s *unheld)
{
	return unheld->n && !*unheld->doubt;
}

/* Print all findings except held sites: print_holders() prints all holders in one line. */
static void print_findings(const char *prefix, const struct ocp_findings *findings)
{
	for (size_t i = 0; i < ocp_findings_count(findings); i++) {
		const struct ocp_finding *f = ocp_findings_get(findings, i);

		if (f->kind == OCP_HELD_SITES)
			continue;
		printf("%s%s", prefix, f->is_disagreement ? "" : "note: ");
		if (f->probe)
			printf("%s: ", f->probe);
		print_text(f->what);
		printf(" (%s)\n", f->cause);
	}
}

static void print_holder(const struct holder *holder)
{
	if (holder->pid == getpid()) {
		print_text(holder->name);
		return;
	}
	printf("pid %d (", (int)holder->pid);
	print_text(holder->name);
	putchar(')');
}

static void print_possible_holders(const struct holders *holders)
{
	const char *before = ", perhaps ";

	for (size_t i = 0; i < holders->n; i++) {
		if (!holders->list[i].may_hold)
			continue;
		fputs(before, stdout);
		print_holder(&holders->list[i]);
		before = " or ";
	}
}

/*
 * Print who holds sites. Leave out the N_LEFT sites whose int3 has no holder: print_unheld()
 * reports them.
 */
static void print_holders(const struct holders *holders, size_t n_left)
{
	const size_t n_unknown = holders->n_unknown > n_left ? holders->n_unknown - n_left : 0;
	const char *before = ": ";

	if (holders->n_sites <= n_left)
		return;
	printf("note: uprobes or breakpoints are on %zu site%s", holders->n_sites - n_left,
	       plural(holders->n_sites - n_left));
	if (!n_left)
		printf(" of %zu probe%s", holders->n_probes, plural(holders->n_probes));
	fputs(", which is no disagreement", stdout);
	for (size_t i = 0; i < holders->n; i++) {
		const struct holder *holder = &holders->list[i];

		if (holder->may_hold)
			continue;
		fputs(before, stdout);
		print_holder(holder);
		printf(" has %zu", holder->n_sites);
		before = ", ";
	}
	if (n_unknown) {
		printf("%s%zu of an unknown program", before, n_unknown);
		print_possible_holders(holders);
	}
	putchar('\n');
}

static void print_unheld(const struct unheld_int3s *unheld)
{
	const size_t n = unheld->n;

	if (!n)
		return;
	printf("%s%zu int3%s in the code of ", are_left_over(unheld) ? "" : "note: ", n, plural(n));
	print_text(unheld->file);
	printf("%s, %zu at sites of probes, belong%s to no link of a uprobe (",
	       unheld->has_more_files ? " and of other files" : "", unheld->n_sites,
	       n == 1 ? "s" : "");
	if (are_left_over(unheld)) {
		fputs("left by a killed tool, through a defect of the kernel; each hit is a trap",
		      stdout);
	} else {
		fputs("left by a killed tool, or of: ", stdout);
		print_text(unheld->doubt);
		fputs("; --fix removes those that nobody holds", stdout);
	}
	puts(")");
}

static void print_unheld_left(const struct repair_outcome *outcome)
{
	const size_t n = outcome->unheld.n;

	if (outcome->n_int3s)
		printf("fixed: %zu int3%s removed that a killed tool had left\n", outcome->n_int3s,
		       plural(outcome->n_int3s));
	if (!n)
		return;
	printf("left: %zu int3%s: ", n, plural(n));
	print_text(outcome->why_unheld
			   ? outcome->why_unheld
			   : "another uprobe is there, or the kernel refuses to remove them");
	putchar('\n');
}

/*
 * Set *COUNTED to the numbers of sites and functions that are counted inside the process, and
 * *INSIDE to the block that they call. If both are 0, set *INSIDE to NULL. The caller closes
 * *INSIDE.
 */
static int find_inside(const struct options *options, struct inside **inside,
		       struct counted_inside *counted)
{
	struct inside_state state;
	int found = inside_find(options->ctx, options->pid, inside);

	*counted = (struct counted_inside){ 0 };
	if (found <= 0) {
		*inside = NULL;
		return found;
	}
	state = inside_state_found(*inside);
	counted->functions = state.n_windows;
	counted->sites = state.n_patched - state.n_windows + state.n_switched;
	if (!counts_inside(counted)) {
		inside_close(*inside);
		*inside = NULL;
	}
	return 0;
}

/* Set TEXT to "3 sites and 1 function", or to the part of it that is not 0. */
static const char *counted_text(char text[COUNTED_TEXT_BYTES], const struct counted_inside *counted)
{
	char sites[COUNTED_TEXT_BYTES / 2] = "", functions[COUNTED_TEXT_BYTES / 2] = "";

	if (counted->sites)
		snprintf(sites, sizeof(sites), "%zu site%s", counted->sites,
			 plural(counted->sites));
	if (counted->functions)
		snprintf(functions, sizeof(functions), "%zu function%s or line%s",
			 counted->functions, plural(counted->functions),
			 plural(counted->functions));
	snprintf(text, COUNTED_TEXT_BYTES, "%s%s%s", sites,
		 counted->sites && counted->functions ? " and " : "", functions);
	return text;
}

static void print_inside(pid_t pid, const struct counted_inside *counted)
{
	char text[COUNTED_TEXT_BYTES];

	if (counts_inside(counted))
		printf("note: %s counted inside the process, which is no disagreement: for `attach "
		       "--engine inside`, kept, or left by a killed tool (ocaml-probes read "
		       "-pid %d)\n",
		       counted_text(text, counted), (int)pid);
}

/*
 * Restore the sites that count inside the process, and remove the blocks that no site calls. The
 * tool that started the counting may still run.
 */
static int fix_inside(const struct options *options)
{
	struct inside *inside;
	struct counted_inside counted;
	char text[COUNTED_TEXT_BYTES];
	int err = find_inside(options, &inside, &counted);

	if (!err && inside)
		err = inside_detach(inside);
	inside_close(inside);
	if (!err)
		err = inside_remove_old(options->ctx, options->pid);
	if (!err && counts_inside(&counted) && !options->json)
		printf("fixed: %s restored, which were counted inside the process\n",
		       counted_text(text, &counted));
	return err;
}

static struct json_object *holders_json(const struct holders *holders)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < holders->n; i++) {
		const struct holder *holder = &holders->list[i];
		struct json_object *to = json_object_new_object();

		json_object_object_add(to, "pid",
				       holder->pid == getpid() ? NULL
							       : json_object_new_int(holder->pid));
		json_add_string(to, "name", holder->name);
		json_add_uint(to, "sites", holder->n_sites);
		json_add_bool(to, "certain", !holder->may_hold);
		json_object_array_add(array, to);
	}
	return array;
}

/*
 * Add the links of kept meters to HOLDERS, since a search for processes that hold links does not
 * find these links: no process has them open. Leave out meters that cannot be read.
 */
static int add_kept(struct ocp_process *proc, struct options *options, struct holders *holders)
{
	char **names, text[HOLDER_NAME_BYTES];
	int err = 0;
	size_t n;

	if (!holders->n_sites || ocp_pinned_list(options->ctx, &names, &n))
		return 0;
	for (size_t i = 0; !err && i < n; i++) {
		struct ocp_meter *meter;

		if (ocp_pinned_open(options->ctx, names[i], &meter))
			continue;
		snprintf(text, sizeof(text), "the kept meter '%s'", names[i]);
		err = holders_add_own(proc, holders, text);
		ocp_meter_free(meter);
	}
	free(names);
	return err;
}

static int find_holders(struct options *options, struct ocp_process *proc, struct holders *holders)
{
	struct ocp_sites *sites = NULL;
	int err = ocp_sites_read(proc, 0, &sites);

	*holders = (struct holders){ 0 };
	if (!err)
		err = holders_find(proc, sites, holders);
	if (!err)
		err = add_kept(proc, options, holders);
	ocp_sites_free(sites);
	return err;
}

static struct json_object *findings_json(const struct ocp_findings *findings)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < ocp_findings_count(findings); i++) {
		const struct ocp_finding *f = ocp_findings_get(findings, i);
		struct json_object *to = json_object_new_object();

		json_add_string(to, "kind", f->name);
		json_add_string(to, "probe", f->probe);
		json_add_bool(to, "disagreement", f->is_disagreement);
		json_add_bool(to, "repairable", f->is_repairable);
		json_add_string(to, "what", f->what);
		json_add_string(to, "cause", f->cause);
		json_object_array_add(array, to);
	}
	return array;
}

static struct json_object *unheld_json(const struct unheld_int3s *unheld)
{
	struct json_object *to = json_object_new_object();

	json_add_uint(to, "int3s", unheld->n);
	json_add_uint(to, "sites", unheld->n_sites);
	json_add_filled_string(to, "file", unheld->file);
	json_add_bool(to, "certain", !*unheld->doubt);
	json_add_string(to, "doubt", unheld->doubt);
	return to;
}

static struct json_object *repaired_json(const struct repair_outcome *outcome)
{
	const struct ocp_repaired *repaired = &outcome->repaired;
	struct json_object *to = json_object_new_object();

	json_add_uint(to, "probes", repaired->probes);
	json_add_uint(to, "sites_on", repaired->sites_on);
	json_add_uint(to, "sites_off", repaired->sites_off);
	json_add_uint(to, "semaphores", repaired->semaphores);
	json_add_uint(to, "undone", repaired->undone);
	json_add_uint(to, "completed", repaired->completed);
	json_add_uint(to, "int3s", outcome->n_int3s);
	return to;
}

/*
 * Print the diagnosis and the result of the repair. OUTCOME is NULL if no repair was requested, or
 * if the repair has failed.
 */
static void print_diagnosis_json(const struct ocp_process *proc, const struct diagnosis *diagnosis,
				 const struct repair_outcome *outcome)
{
	struct json_object *top = json_object_new_object();

	json_add_int(top, "version", 1);
	json_add_int(top, "pid", ocp_process_pid(proc));
	json_add_string(top, "exe", ocp_process_exe(proc));
	json_object_object_add(top, "findings", findings_json(diagnosis->findings));
	json_object_object_add(top, "holders", holders_json(&diagnosis->holders));
	json_add_uint(top, "counted_inside", diagnosis->inside.sites + diagnosis->inside.functions);
	json_object_object_add(top, "unheld", unheld_json(&diagnosis->unheld));
	json_object_object_add(top, "fixed", outcome ? repaired_json(outcome) : NULL);
	json_object_object_add(top, "left", outcome ? findings_json(outcome->left) : NULL);
	json_object_object_add(top, "left_unheld", outcome ? unheld_json(&outcome->unheld) : NULL);
	json_print(top, JSON_C_TO_STRING_PLAIN);
}

static bool disagrees(const struct ocp_findings *findings)
{
	for (size_t i = 0; i < ocp_findings_count(findings); i++)
		if (ocp_findings_get(findings, i)->is_disagreement)
			return true;
	return false;
}

static void print_repaired(const struct ocp_repaired *r)
{
	if (r->probes)
		printf("fixed: %zu probe%s: %zu site%s switched on, %zu off, %zu semaphore%s set, "
		       "%zu action%s of killed tools undone, %zu completed\n",
		       r->probes, plural(r->probes), r->sites_on, plural(r->sites_on), r->sites_off,
		       r->semaphores, plural(r->semaphores), r->undone, plural(r->undone),
		       r->completed);
	else
		puts("fixed: nothing, no byte was written");
}

/*
 * Remove leftover int3s. int3s that cannot be removed (for example without CAP_BPF) do not make the
 * repair fail, since a uprobe may be using them. The reason stays in the ctx.
 */
static void remove_int3s(struct options *options, struct ocp_process *proc,
			 struct repair_outcome *outcome)
{
	if (unheld_int3s_remove(proc, &outcome->n_int3s, &outcome->unheld))
		outcome->why_unheld = ocp_error(options->ctx);
}

/* Repair even if nothing is wrong: a killed tool may have left a journal, which is then removed. */
static int fix(struct options *options, struct ocp_process *proc, const struct diagnosis *diagnosis)
{
	const struct ocp_findings *findings = diagnosis->findings;
	struct repair_outcome outcome = { 0 };
	int err = fix_inside(options), code;

	if (!err)
		err = ocp_process_repair(proc, options->repair_flags, &outcome.repaired);
	if (!err)
		err = ocp_process_diagnose(proc, &outcome.left);
	if (err) {
		if (options->json)
			print_diagnosis_json(proc, diagnosis, NULL);
		return say_error(options->ctx, err);
	}
	remove_int3s(options, proc, &outcome);
	code = disagrees(outcome.left) || are_left_over(&outcome.unheld) ? EXIT_FAILED : EXIT_DONE;
	if (options->json) {
		print_diagnosis_json(proc, diagnosis, &outcome);
	} else {
		if (disagrees(findings) || outcome.repaired.probes) {
			print_repaired(&outcome.repaired);
			print_findings("left: ", outcome.left);
		}
		print_unheld_left(&outcome);
	}
	ocp_findings_free(outcome.left);
	return code;
}

static int conclude(struct options *options, struct ocp_process *proc,
		    const struct diagnosis *diagnosis)
{
	int code = disagrees(diagnosis->findings) || are_left_over(&diagnosis->unheld) ? EXIT_FAILED
										       : EXIT_DONE;

	if (options->fix)
		code = fix(options, proc, diagnosis);
	else if (options->json)
		print_diagnosis_json(proc, diagnosis, NULL);
	if (ocp_process_probe_count(proc) == 0 && !options->quiet)
		say("pid %d (%s): has no OCaml probes", (int)options->pid, ocp_process_exe(proc));
	return code;
}

static int diagnose_process(struct options *options, struct ocp_process *proc)
{
	struct diagnosis diagnosis = { 0 };
	struct inside *inside = NULL;
	int err = ocp_process_diagnose(proc, &diagnosis.findings);
	int code;

	if (!err)
		err = find_inside(options, &inside, &diagnosis.inside);
	inside_close(inside);
	if (!err)
		err = find_holders(options, proc, &diagnosis.holders);
	if (!err)
		err = unheld_int3s_find(proc, &diagnosis.unheld);
	code = err ? say_error(options->ctx, err) : EXIT_DONE;
	if (code == EXIT_DONE && !options->json) {
		print_findings("", diagnosis.findings);
		print_holders(&diagnosis.holders,
			      are_left_over(&diagnosis.unheld) ? diagnosis.unheld.n_sites : 0);
		print_unheld(&diagnosis.unheld);
		print_inside(options->pid, &diagnosis.inside);
	}
	if (code == EXIT_DONE)
		code = conclude(options, proc, &diagnosis);
	holders_free(&diagnosis.holders);
	ocp_findings_free(diagnosis.findings);
	return code;
}

static int run_doctor(struct options *options)
{
	struct ocp_process *proc;
	int err, code;

	if (!options->pid)
		return say_usage(&command_doctor, "-pid is required");
	err = ocp_process_open(options->ctx, options->pid, &proc);
	if (err)
		return say_error(options->ctx, err);
	code = diagnose_process(options, proc);
	ocp_process_free(proc);
	return code;
}

const struct command command_doctor = {
	.name = "doctor",
	.help = &help_doctor,
	.takes_running = true,
	.run = run_doctor,
};

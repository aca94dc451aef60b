// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/plural.h"
#include "inside/inside.h"
#include "process/holders.h"

struct diagnosis {
	struct ocp_findings *findings;
	struct holders holders; /* of sites with an int3 */
	size_t n_inside;	/* sites that count inside of the process */
};

/* Who holds sites is told in one line, see print_holders. */
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

static void print_holders(const struct holders *holders)
{
	const char *before = ": ";

	if (!holders->n_sites)
		return;
	printf("note: uprobes or breakpoints are on %zu site%s of %zu probe%s, which is no "
	       "disagreement",
	       holders->n_sites, plural(holders->n_sites), holders->n_probes,
	       plural(holders->n_probes));
	for (size_t i = 0; i < holders->n; i++) {
		const struct holder *holder = &holders->list[i];

		if (holder->may_hold)
			continue;
		fputs(before, stdout);
		print_holder(holder);
		printf(" has %zu", holder->n_sites);
		before = ", ";
	}
	if (holders->n_unknown) {
		printf("%s%zu of an unknown program", before, holders->n_unknown);
		print_possible_holders(holders);
	}
	putchar('\n');
}

/* INSIDE, which is NULL if no site counts, is the caller's. */
static int find_inside(const struct options *options, struct inside **inside, size_t *n)
{
	struct inside_state state = { 0 };
	int found = inside_find(options->ctx, options->pid, inside);

	*n = 0;
	if (found <= 0) {
		*inside = NULL;
		return found;
	}
	found = inside_state(*inside, &state);
	*n = state.n_patched + state.n_switched;
	if (!*n) {
		inside_close(*inside);
		*inside = NULL;
	}
	return found;
}

static void print_inside(pid_t pid, size_t n)
{
	if (n)
		printf("note: %zu site%s inside of the process, which is no disagreement: for `attach "
		       "--engine inside`, kept, or left by one that was killed (ocaml-probes read "
		       "-pid %d)\n",
		       n, n == 1 ? " counts" : "s count", (int)pid);
}

/* Restore the sites that count inside. The tool that has begun to count may be alive. */
static int fix_inside(const struct options *options)
{
	struct inside *inside;
	size_t n;
	int err = find_inside(options, &inside, &n);

	if (!err && inside)
		err = inside_detach(inside);
	inside_close(inside);
	if (!err && n && !options->json)
		printf("fixed: %zu site%s restored that counted inside of the process\n", n,
		       plural(n));
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
		json_object_object_add(to, "name", json_object_new_string(holder->name));
		json_object_object_add(to, "sites", json_object_new_uint64(holder->n_sites));
		json_object_object_add(to, "certain", json_object_new_boolean(!holder->may_hold));
		json_object_array_add(array, to);
	}
	return array;
}

/* Kept meters have no process: open their links here. One that cannot be read is left out. */
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

		json_object_object_add(to, "kind", json_object_new_string(f->name));
		json_object_object_add(to, "probe",
				       f->probe ? json_object_new_string(f->probe) : NULL);
		json_object_object_add(to, "disagreement",
				       json_object_new_boolean(f->is_disagreement));
		json_object_object_add(to, "repairable", json_object_new_boolean(f->is_repairable));
		json_object_object_add(to, "what", json_object_new_string(f->what));
		json_object_object_add(to, "cause", json_object_new_string(f->cause));
		json_object_array_add(array, to);
	}
	return array;
}

static struct json_object *repaired_json(const struct ocp_repaired *repaired)
{
	struct json_object *to = json_object_new_object();

	json_object_object_add(to, "probes", json_object_new_uint64(repaired->probes));
	json_object_object_add(to, "sites_on", json_object_new_uint64(repaired->sites_on));
	json_object_object_add(to, "sites_off", json_object_new_uint64(repaired->sites_off));
	json_object_object_add(to, "semaphores", json_object_new_uint64(repaired->semaphores));
	json_object_object_add(to, "undone", json_object_new_uint64(repaired->undone));
	json_object_object_add(to, "completed", json_object_new_uint64(repaired->completed));
	return to;
}

/* REPAIRED and LEFT are NULL if no repair was requested, or if it failed. */
static void print_json(const struct ocp_process *proc, const struct diagnosis *diagnosis,
		       const struct ocp_repaired *repaired, const struct ocp_findings *left)
{
	struct json_object *top = json_object_new_object();

	json_object_object_add(top, "version", json_object_new_int(1));
	json_object_object_add(top, "pid", json_object_new_int(ocp_process_pid(proc)));
	json_object_object_add(top, "exe", json_object_new_string(ocp_process_exe(proc)));
	json_object_object_add(top, "findings", findings_json(diagnosis->findings));
	json_object_object_add(top, "holders", holders_json(&diagnosis->holders));
	json_object_object_add(top, "counted_inside", json_object_new_uint64(diagnosis->n_inside));
	json_object_object_add(top, "fixed", repaired ? repaired_json(repaired) : NULL);
	json_object_object_add(top, "left", left ? findings_json(left) : NULL);
	puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
	json_object_put(top);
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

/* Repair even if all is well: a killed tool may have left a record that needs no action. */
static int fix(struct options *options, struct ocp_process *proc, const struct diagnosis *diagnosis)
{
	const struct ocp_findings *findings = diagnosis->findings;
	struct ocp_findings *left = NULL;
	struct ocp_repaired repaired;
	int err = fix_inside(options), code;

	if (!err)
		err = ocp_process_repair(proc, options->repair_flags, &repaired);
	if (!err)
		err = ocp_process_diagnose(proc, &left);
	if (err) {
		if (options->json)
			print_json(proc, diagnosis, NULL, NULL);
		return say_error(options->ctx, err);
	}
	code = disagrees(left) ? EXIT_FAILED : EXIT_DONE;
	if (options->json) {
		print_json(proc, diagnosis, &repaired, left);
	} else if (disagrees(findings) || repaired.probes) {
		print_repaired(&repaired);
		print_findings("left: ", left);
	}
	ocp_findings_free(left);
	return code;
}

static int conclude(struct options *options, struct ocp_process *proc,
		    const struct diagnosis *diagnosis)
{
	int code = disagrees(diagnosis->findings) ? EXIT_FAILED : EXIT_DONE;

	if (options->fix)
		code = fix(options, proc, diagnosis);
	else if (options->json)
		print_json(proc, diagnosis, NULL, NULL);
	if (ocp_process_probe_count(proc) == 0 && !options->quiet)
		say("pid %d (%s): has no OCaml probes", (int)options->pid, ocp_process_exe(proc));
	return code;
}

static int examine(struct options *options, struct ocp_process *proc)
{
	struct diagnosis diagnosis = { 0 };
	struct inside *inside = NULL;
	int err = ocp_process_diagnose(proc, &diagnosis.findings);
	int code;

	if (!err)
		err = find_inside(options, &inside, &diagnosis.n_inside);
	inside_close(inside);
	if (!err)
		err = find_holders(options, proc, &diagnosis.holders);
	code = err ? say_error(options->ctx, err) : EXIT_DONE;
	if (code == EXIT_DONE && !options->json) {
		print_findings("", diagnosis.findings);
		print_holders(&diagnosis.holders);
		print_inside(options->pid, diagnosis.n_inside);
	}
	if (code == EXIT_DONE)
		code = conclude(options, proc, &diagnosis);
	holders_free(&diagnosis.holders);
	ocp_findings_free(diagnosis.findings);
	return code;
}

static int run(struct options *options)
{
	struct ocp_process *proc;
	int err, code;

	if (!options->pid)
		return say_usage(&command_doctor, "-pid is required");
	err = ocp_process_open(options->ctx, options->pid, &proc);
	if (err)
		return say_error(options->ctx, err);
	code = examine(options, proc);
	ocp_process_free(proc);
	return code;
}

const struct command command_doctor = {
	.name = "doctor",
	.help = &help_doctor,
	.takes_running = true,
	.run = run,
};

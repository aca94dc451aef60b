// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <json-c/json.h>
#include <stdio.h>
#include "base/plural.h"

static void print_findings(const char *prefix, const struct ocp_findings *findings)
{
	for (size_t i = 0; i < ocp_findings_count(findings); i++) {
		const struct ocp_finding *f = ocp_findings_get(findings, i);

		printf("%s%s", prefix, f->is_disagreement ? "" : "note: ");
		if (f->probe)
			printf("%s: ", f->probe);
		print_text(f->what);
		printf(" (%s)\n", f->cause);
	}
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
static void print_json(const struct ocp_process *proc, const struct ocp_findings *findings,
		       const struct ocp_repaired *repaired, const struct ocp_findings *left)
{
	struct json_object *top = json_object_new_object();

	json_object_object_add(top, "version", json_object_new_int(1));
	json_object_object_add(top, "pid", json_object_new_int(ocp_process_pid(proc)));
	json_object_object_add(top, "exe", json_object_new_string(ocp_process_exe(proc)));
	json_object_object_add(top, "findings", findings_json(findings));
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
static int fix(struct options *options, struct ocp_process *proc,
	       const struct ocp_findings *findings)
{
	struct ocp_findings *left = NULL;
	struct ocp_repaired repaired;
	int err = ocp_process_repair(proc, options->repair_flags, &repaired), code;

	if (!err)
		err = ocp_process_diagnose(proc, &left);
	if (err) {
		if (options->json)
			print_json(proc, findings, NULL, NULL);
		return say_error(options->ctx, err);
	}
	code = disagrees(left) ? EXIT_FAILED : EXIT_DONE;
	if (options->json) {
		print_json(proc, findings, &repaired, left);
	} else if (disagrees(findings) || repaired.probes) {
		print_repaired(&repaired);
		print_findings("left: ", left);
	}
	ocp_findings_free(left);
	return code;
}

static int examine(struct options *options, struct ocp_process *proc)
{
	struct ocp_findings *findings;
	int err = ocp_process_diagnose(proc, &findings);
	int code;

	if (err)
		return say_error(options->ctx, err);
	if (!options->json)
		print_findings("", findings);
	code = disagrees(findings) ? EXIT_FAILED : EXIT_DONE;
	if (options->fix)
		code = fix(options, proc, findings);
	else if (options->json)
		print_json(proc, findings, NULL, NULL);
	if (ocp_process_probe_count(proc) == 0 && !options->quiet)
		say("pid %d (%s): has no OCaml probes", (int)options->pid, ocp_process_exe(proc));
	ocp_findings_free(findings);
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
	.run = run,
};

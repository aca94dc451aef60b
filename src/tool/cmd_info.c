// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "process/process_kind.h"
#include "tool/sites_output.h"
#include "watch/verdicts.h"

enum { EXAM_MS = 10000 };

/* The process that traces the process in question. */
struct tracer {
	pid_t pid; /* 0: none */
	char name[64];
};

static const char *state_name(enum ocp_state state)
{
	switch (state) {
	case OCP_DISABLED:
		return "disabled";
	case OCP_ENABLED:
		return "enabled";
	case OCP_MIXED:
		return "mixed";
	}
	return "?";
}

static struct json_object *tracer_json(const struct tracer *tracer)
{
	struct json_object *to;

	if (!tracer->pid)
		return NULL;
	to = json_object_new_object();
	json_object_object_add(to, "pid", json_object_new_int(tracer->pid));
	json_object_object_add(to, "name", json_object_new_string(tracer->name));
	return to;
}

static void print_info_json(const struct ocp_process *proc, const enum ocp_state *states,
			    const struct tracer *tracer, const struct ocp_sites *sites)
{
	struct json_object *top = json_object_new_object(), *probes = json_object_new_array();

	json_object_object_add(top, "version", json_object_new_int(1));
	json_object_object_add(top, "pid", json_object_new_int(ocp_process_pid(proc)));
	json_object_object_add(top, "exe", json_object_new_string(ocp_process_exe(proc)));
	for (size_t i = 0; i < ocp_process_probe_count(proc); i++) {
		struct json_object *probe = json_object_new_object();

		json_object_object_add(probe, "name",
				       json_object_new_string(ocp_process_probe_name(proc, i)));
		json_object_object_add(probe, "state",
				       json_object_new_string(state_name(states[i])));
		json_object_object_add(probe, "sites",
				       json_object_new_uint64(ocp_process_probe_sites(proc, i)));
		json_object_array_add(probes, probe);
	}
	json_object_object_add(top, "probes", probes);
	json_object_object_add(top, "tracer", tracer_json(tracer));
	if (sites)
		json_object_object_add(top, "sites", sites_json(proc, sites));
	puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
	json_object_put(top);
}

static void print_lines(const struct ocp_process *proc, const enum ocp_state *states)
{
	for (size_t i = 0; i < ocp_process_probe_count(proc); i++)
		printf("%s %s\n", ocp_process_probe_name(proc, i), state_name(states[i]));
}

static void say_none(const struct options *options, const struct ocp_process *proc)
{
	if (options->quiet)
		return;
	say("pid %d (%s): has no OCaml probes", (int)ocp_process_pid(proc), ocp_process_exe(proc));
	say_functions_hint(options);
}

static int print_states(struct options *options, struct ocp_process *proc)
{
	enum ocp_state *states = calloc(ocp_process_probe_count(proc) + 1, sizeof(*states));
	struct ocp_sites *sites = NULL;
	struct tracer tracer;
	int err;

	if (!states) {
		say("out of memory");
		return EXIT_FAILED;
	}
	err = ocp_process_read_states(proc, options->update_flags, states);
	if (!err)
		err = ocp_process_read_tracer(proc, &tracer.pid, tracer.name, sizeof(tracer.name));
	if (!err && options->sites)
		err = ocp_sites_read(proc, OCP_SITES_SYMBOLS | OCP_SITES_SOURCE, &sites);
	if (!err && options->json)
		print_info_json(proc, states, &tracer, sites);
	else if (!err && sites)
		sites_print_table(proc, sites);
	else if (!err)
		print_lines(proc, states);
	if (!err && ocp_process_probe_count(proc) == 0)
		say_none(options, proc);
	if (!err && sites && !options->json && !options->quiet)
		sites_say_unknown_args(proc, sites);
	if (!err && sites && tracer.pid && !options->quiet)
		say("pid %d: is being traced by pid %d (%s)", (int)options->pid, (int)tracer.pid,
		    tracer.name);
	ocp_sites_free(sites);
	free(states);
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

static int run_info(struct options *options)
{
	struct verdicts *verdicts;
	struct ocp_process *proc;
	int err, none = 0, code;

	if (!options->pid)
		return say_usage(&command_info, "-pid is required");
	verdicts = verdicts_new(options->ctx);
	if (!verdicts)
		return say_error(options->ctx, -ENOMEM);
	/*
	 * As root, this process must not spend time and memory on a file that any user may have
	 * made.
	 */
	verdicts_set_strangers(verdicts);
	do
		err = ocp_process_open(options->ctx, options->pid, &proc);
	while (err == -EAGAIN && verdicts_await(verdicts, EXAM_MS));
	if (!err && ocp_process_probe_count(proc) == 0)
		none = process_need_native(options->ctx, options->pid);
	code = err || none ? say_error(options->ctx, err ? err : none)
			   : print_states(options, proc);
	if (!err)
		ocp_process_free(proc);
	verdicts_free(verdicts);
	return code;
}

const struct command command_info = {
	.name = "info",
	.help = &help_info,
	.takes_running = true,
	.run = run_info,
};

// SPDX-License-Identifier: MIT
#include "tool/tool.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

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

static void print_json(const struct ocp_process *proc, const enum ocp_state *states)
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
	puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
	json_object_put(top);
}

static int print_states(struct options *options, struct ocp_process *proc)
{
	size_t n = ocp_process_probe_count(proc);
	enum ocp_state *states = calloc(n + 1, sizeof(*states));
	int err;

	if (!states) {
		say("out of memory");
		return EXIT_FAILED;
	}
	err = ocp_process_read_states(proc, options->update_flags, states);
	if (!err && options->json)
		print_json(proc, states);
	for (size_t i = 0; !err && !options->json && i < n; i++)
		printf("%s %s\n", ocp_process_probe_name(proc, i), state_name(states[i]));
	if (!err && n == 0 && !options->quiet)
		say("pid %d (%s): has no OCaml probes", (int)options->pid, ocp_process_exe(proc));
	free(states);
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

static int run(struct options *options)
{
	struct ocp_process *proc;
	int err, code;

	if (!options->pid)
		return say_usage(&command_info, "-pid is needed");
	err = ocp_process_open(options->ctx, options->pid, &proc);
	if (err)
		return say_error(options->ctx, err);
	code = print_states(options, proc);
	ocp_process_free(proc);
	return code;
}

const struct command command_info = {
	.name = "info",
	.summary = "show which probes of a running process are on",
	.usage =
		"usage: ocaml-probes info -pid PID [-atomically] [--json] [-verbose] [-quiet]\n"
		"\n"
		"Prints a line a probe: its name and enabled, disabled, or mixed when its sites and\n"
		"semaphores disagree. The process is not stopped, unless -atomically asks for what all\n"
		"probes are at one moment.\n",
	.flags = " pid atomically json verbose v quiet q ",
	.run = run,
};

// SPDX-License-Identifier: MIT
#include "tool/tool.h"

#include <json-c/json.h>
#include <stdio.h>

static void print_json(const char *path, const struct ocp_program *prog)
{
	struct json_object *top = json_object_new_object(), *probes = json_object_new_array();

	json_object_object_add(top, "version", json_object_new_int(1));
	json_object_object_add(top, "prog", json_object_new_string(path));
	for (size_t i = 0; i < ocp_program_probe_count(prog); i++) {
		struct json_object *probe = json_object_new_object();

		json_object_object_add(probe, "name",
				       json_object_new_string(ocp_program_probe_name(prog, i)));
		json_object_object_add(probe, "sites",
				       json_object_new_uint64(ocp_program_probe_sites(prog, i)));
		json_object_array_add(probes, probe);
	}
	json_object_object_add(top, "probes", probes);
	puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
	json_object_put(top);
}

static int run(struct options *options)
{
	struct ocp_program *prog;
	int err;

	if (!options->prog)
		return say_usage(&command_list, "-prog is needed");
	err = ocp_program_open(options->ctx, options->prog, &prog);
	if (err)
		return say_error(options->ctx, err);
	if (options->json)
		print_json(options->prog, prog);
	else
		for (size_t i = 0; i < ocp_program_probe_count(prog); i++)
			puts(ocp_program_probe_name(prog, i));
	if (ocp_program_probe_count(prog) == 0 && !options->quiet)
		say("%s: has no OCaml probes", options->prog);
	ocp_program_free(prog);
	return EXIT_DONE;
}

const struct command command_list = {
	.name = "list",
	.summary = "list the probes of a program's file",
	.usage = "usage: ocaml-probes list -prog FILE [--json] [-quiet]\n"
		 "\n"
		 "Prints the names, sorted, a line each. No process is needed.\n",
	.flags = " prog json verbose v quiet q ",
	.run = run,
};

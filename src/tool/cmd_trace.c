// SPDX-License-Identifier: MIT
#include "tool/tool.h"

#include <stdlib.h>

static int run(struct options *options)
{
	char **argv;
	pid_t pid;
	int err;

	if (!options->prog)
		return say_usage(&command_trace, "-prog is needed");
	if (!options->actions_flag)
		return say_usage(&command_trace, "nothing to do: no actions");
	argv = calloc((size_t)options->n_args + 2, sizeof(*argv));
	if (!argv) {
		say("out of memory");
		return EXIT_FAILED;
	}
	argv[0] = (char *)options->prog;
	for (int i = 0; i < options->n_args; i++)
		argv[i + 1] = options->args[i];
	err = ocp_trace(options->ctx, options->prog, argv, options->actions, &pid);
	free(argv);
	if (err)
		return say_error(options->ctx, err);
	if (options->verbose)
		say("%s: started as pid %d", options->prog, (int)pid);
	return EXIT_DONE;
}

const struct command command_trace = {
	.name = "trace",
	.summary = "start a program with probes switched on from its first instruction",
	.usage =
		"usage: ocaml-probes trace -prog FILE ACTIONS [-gigatext] [-verbose] [-quiet] [-- ARGS]\n"
		"\n"
		"Returns when the program has started. Disable actions are ignored: all probes start\n"
		"as they were compiled.\n"
		"\n"
		"actions, of one kind; all or nothing, then the program is not started:\n"
		"  -enable NAME[,NAME...]    (repeatable)\n"
		"  -enable-pair START,STOP   two probes, of which the second ends what the first begins\n"
		"                            (repeatable)\n"
		"  -enable-regexp RE         every probe whose name begins as RE says, in the syntax of\n"
		"                            OCaml's Str (repeatable)\n"
		"  -enable-all\n"
		"\n"
		"  -gigatext                 allow switching code on 1 GiB pages, which copies a page\n",
	.flags = " prog enable disable enable-pair disable-pair enable-regexp disable-regexp "
		 "enable-all disable-all gigatext verbose v quiet q ",
	.run = run,
};

// SPDX-License-Identifier: MIT
#include "tool/tool.h"

static int run(struct options *options)
{
	struct ocp_process *proc;
	int err, code = EXIT_DONE;

	if (!options->pid)
		return say_usage(&command_attach, "-pid is needed");
	if (!options->has_actions && !options->count)
		return say_usage(&command_attach, "nothing to do: neither actions nor --count");
	if (!options->count && (options->for_ns || options->interval_ns || options->json))
		return say_usage(&command_attach, "-for, -interval and -json go with --count");
	err = ocp_process_open(options->ctx, options->pid, &proc);
	if (err)
		return say_error(options->ctx, err);
	if (options->has_actions)
		err = ocp_process_update(proc, options->actions, 0);
	if (err)
		code = say_error(options->ctx, err);
	else if (options->count)
		code = count_session(options, proc);
	ocp_process_free(proc);
	return code;
}

const struct command command_attach = {
	.name = "attach",
	.summary = "switch or count the probes of a running process",
	.usage =
		"usage: ocaml-probes attach -pid PID [ACTIONS] [--count [COUNTING]] [-verbose] [-quiet]\n"
		"\n"
		"actions, all or nothing; the handlers run from then on:\n"
		"  -enable NAME[,NAME...]    add 1 to each probe's count of users (repeatable)\n"
		"  -disable NAME[,NAME...]   subtract 1; a probe is off when it has no users\n"
		"  -enable-all, -disable-all\n"
		"\n"
		"counting, by the kernel; no handler runs for it:\n"
		"  --count                   count the hits of every probe\n"
		"  --for TIME                stop after TIME (500ms, 3s, 2m); else at Ctrl-C or the\n"
		"                            process's end\n"
		"  --interval TIME           print the counts every TIME as well\n"
		"  --json                    an object a line instead of tables\n",
	.flags =
		" pid enable disable enable-all disable-all count for interval json verbose v quiet "
		"q ",
	.run = run,
};

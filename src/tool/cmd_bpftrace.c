// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool find_what(const char *word, enum ocp_bpftrace *what)
{
	static const struct {
		const char *word;
		enum ocp_bpftrace what;
	} words[] = {
		{ "count", OCP_BPFTRACE_COUNT },
		{ "time", OCP_BPFTRACE_TIME },
		{ "args", OCP_BPFTRACE_ARGS },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		*what = words[i].what;
		if (strcmp(word, words[i].word) == 0)
			return true;
	}
	return false;
}

static int write_for_process(struct options *options, enum ocp_bpftrace what, char **script)
{
	struct ocp_process *proc;
	int err = ocp_process_open(options->ctx, options->pid, &proc);

	if (err)
		return err;
	err = ocp_process_bpftrace(proc, what, options->args[1], script);
	ocp_process_free(proc);
	return err;
}

static int write_for_program(struct options *options, enum ocp_bpftrace what, char **script)
{
	struct ocp_program *prog;
	int err = ocp_program_open(options->ctx, options->prog, &prog);

	if (err)
		return err;
	err = ocp_program_bpftrace(prog, options->prog, what, options->args[1], script);
	ocp_program_free(prog);
	return err;
}

static int run(struct options *options)
{
	enum ocp_bpftrace what;
	char *script = NULL;
	int err;

	if (!options->pid == !options->prog)
		return say_usage(&command_bpftrace, "either -pid or -prog is needed");
	if (options->n_args == 0)
		return say_usage(&command_bpftrace, "what for? count, time or args");
	if (!find_what(options->args[0], &what))
		return say_usage(&command_bpftrace, "'%s': not count, time or args",
				 options->args[0]);
	if (options->n_args != 2)
		return say_usage(&command_bpftrace, "%s: needs the probes' names, in one word",
				 options->args[0]);
	err = options->pid ? write_for_process(options, what, &script)
			   : write_for_program(options, what, &script);
	if (err)
		return say_error(options->ctx, err);
	fputs(script, stdout);
	free(script);
	return EXIT_DONE;
}

const struct command command_bpftrace = {
	.name = "bpftrace",
	.summary = "print a bpftrace command that traces probes",
	.usage = "usage: ocaml-probes bpftrace (-pid PID | -prog FILE) count|time|args NAMES\n"
		 "                             [-verbose] [-quiet]\n"
		 "\n"
		 "Prints a command for a shell that runs bpftrace with the right files, provider\n"
		 "and process, and comments where bpftrace has limits. NAMES is NAME,... or a\n"
		 "regular expression of Str's syntax that matches at the start of names.\n"
		 "\n"
		 "  count NAMES       hits by probe\n"
		 "  time START,STOP   the pairs in each thread: how many, nanoseconds in all and\n"
		 "                    as a histogram, starts and stops without the other\n"
		 "  args NAMES        a line a hit: seconds, thread, probe, its arguments; ints\n"
		 "                    as such, any other value in hexadecimal\n"
		 "\n"
		 "  -pid PID          one process\n"
		 "  -prog FILE        every process that runs FILE\n",
	.flags = " pid prog verbose v quiet q ",
	.takes_words = true,
	.run = run,
};

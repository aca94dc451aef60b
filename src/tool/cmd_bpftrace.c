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

static int run_bpftrace(struct options *options)
{
	enum ocp_bpftrace what;
	char *script = NULL;
	int err;

	if (!options->pid == !options->prog)
		return say_usage(&command_bpftrace, "either -pid or -prog is required");
	if (options->n_args == 0)
		return say_usage(&command_bpftrace, "missing mode: count, time or args");
	if (!find_what(options->args[0], &what))
		return say_usage(&command_bpftrace, "'%s': not count, time or args",
				 options->args[0]);
	if (options->n_args != 2)
		return say_usage(&command_bpftrace,
				 "%s: requires the names of the probes as one word",
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
	.help = &help_bpftrace,
	.takes_words = true,
	.takes_file = true,
	.run = run_bpftrace,
};

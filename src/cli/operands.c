// SPDX-License-Identifier: MIT
#include "cli/operands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cli/cli.h"

bool is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

int options_add_pid(struct options *options, pid_t pid)
{
	pid_t *new;

	for (size_t i = 0; i < options->n_pids; i++)
		if (options->pids[i] == pid)
			return EXIT_DONE;
	new = array_add(options->pids, options->n_pids);
	if (!new) {
		say("out of memory");
		return EXIT_FAILED;
	}
	*new = pid;
	options->pid = options->pids[0];
	return EXIT_DONE;
}

int options_take_pid(const struct command *command, struct options *options, const char *flag,
		     const char *text)
{
	const size_t n_before = options->n_pids;
	const char *dash = flag ? "-" : "", *space = flag ? " " : "";
	char *end;
	long value;
	int code;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value <= 0 || value > INT32_MAX)
		return say_usage(command, "%s%s%s'%s': not a process id", dash, flag ? flag : "",
				 space, text);
	if (n_before && !command->many_pids)
		return say_usage(command, "%s%s: given twice; this command takes one process", dash,
				 flag ? flag : text);
	code = options_add_pid(options, (pid_t)value);
	if (code == EXIT_DONE && options->n_pids == n_before)
		return say_usage(command, "%s%s%s%ld: given twice", dash, flag ? flag : "", space,
				 value);
	return code;
}

int options_take_words(const struct command *command, struct options *options, char **words, int n)
{
	bool takes_pid = command_takes(command, "pid");
	int n_left = 0, code = EXIT_DONE;

	if (command->takes_words)
		takes_pid = takes_pid && !options->n_pids && !options->exe && !options->prog;
	for (int i = 0; i < n && code == EXIT_DONE; i++) {
		if (takes_pid && is_number(words[i]) &&
		    !(command->keeps_number && command->keeps_number(options, words[i]))) {
			code = options_take_pid(command, options, NULL, words[i]);
			takes_pid = !command->takes_words;
		} else if (command->takes_words) {
			words[n_left++] = words[i];
		} else {
			code = say_usage(command, "'%s': unexpected%s", words[i],
					 command->takes_program && command->takes_file
						 ? " (put the program's arguments after --)"
						 : "");
		}
	}
	options->args = words;
	options->n_args = n_left;
	return code;
}

static int say_several(const struct options *options, const pid_t *pids, size_t n)
{
	enum { SHOWN = 8 };
	char list[SHOWN * 12] = "";
	size_t at = 0;

	for (size_t i = 0; i < n && i < SHOWN; i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%d", i ? ", " : "",
				       (int)pids[i]);
	say("%s: %zu processes run it: %s%s", options->exe, n, list, n > SHOWN ? ", ..." : "");
	fprintf(stderr, "hint: choose one: -pid %d\n", (int)pids[0]);
	return EXIT_USAGE;
}

int options_find_process(const struct command *command, struct options *options)
{
	pid_t *pids;
	size_t n;
	int code, err;

	if (!command->takes_running || !options->exe)
		return EXIT_DONE;
	if (options->n_pids)
		return say_usage(command, "-pid and --exe are mutually exclusive");
	err = ocp_find_processes(options->ctx, options->exe, &pids, &n);
	if (err)
		return say_error(options->ctx, err);
	code = n == 1 ? options_add_pid(options, pids[0]) : say_several(options, pids, n);
	free(pids);
	return code;
}

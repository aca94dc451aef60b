// SPDX-License-Identifier: MIT
/*
 * The command line. getopt_long_only takes -flag and --flag alike; abbreviations, which it would
 * take too, are refused: what they mean changes when flags are added.
 */
#include "tool/tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum flag {
	FLAG_ARGUMENT_MISSING = ':',
	FLAG_UNKNOWN = '?',
	FLAG_COUNT = 256,
	FLAG_DISABLE,
	FLAG_DISABLE_ALL,
	FLAG_ENABLE,
	FLAG_ENABLE_ALL,
	FLAG_FIX,
	FLAG_FOR,
	FLAG_HELP,
	FLAG_INTERVAL,
	FLAG_JSON,
	FLAG_PID,
	FLAG_PROG,
	FLAG_QUIET,
	FLAG_SITES,
	FLAG_VERBOSE,
};

static const struct option flags[] = {
	{ "count", no_argument, NULL, FLAG_COUNT },
	{ "disable", required_argument, NULL, FLAG_DISABLE },
	{ "disable-all", no_argument, NULL, FLAG_DISABLE_ALL },
	{ "enable", required_argument, NULL, FLAG_ENABLE },
	{ "enable-all", no_argument, NULL, FLAG_ENABLE_ALL },
	{ "fix", no_argument, NULL, FLAG_FIX },
	{ "for", required_argument, NULL, FLAG_FOR },
	{ "h", no_argument, NULL, FLAG_HELP },
	{ "help", no_argument, NULL, FLAG_HELP },
	{ "interval", required_argument, NULL, FLAG_INTERVAL },
	{ "json", no_argument, NULL, FLAG_JSON },
	{ "pid", required_argument, NULL, FLAG_PID },
	{ "prog", required_argument, NULL, FLAG_PROG },
	{ "q", no_argument, NULL, FLAG_QUIET },
	{ "quiet", no_argument, NULL, FLAG_QUIET },
	{ "sites", no_argument, NULL, FLAG_SITES },
	{ "v", no_argument, NULL, FLAG_VERBOSE },
	{ "verbose", no_argument, NULL, FLAG_VERBOSE },
	{ 0 },
};

static int parse_pid(const struct command *command, const char *text, pid_t *pid)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value <= 0 || value > INT32_MAX)
		return say_usage(command, "-pid '%s': not a process id", text);
	if (*pid)
		return say_usage(command, "-pid: given twice");
	*pid = (pid_t)value;
	return EXIT_DONE;
}

/* A time: a number with ms, s, m or h behind it; seconds if there is nothing. */
static int parse_time(const struct command *command, const char *flag, const char *text,
		      int64_t *ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "ms", 1e6 }, { "s", 1e9 }, { "", 1e9 }, { "m", 60e9 }, { "h", 3600e9 } };
	const double longest_ns = 1e9 * 86400 * 366;
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		value *= units[i].ns;
		/* Not the other way round: NaN compares false. */
		if (!(value >= 1e6 && value <= longest_ns))
			break;
		*ns = (int64_t)value;
		return EXIT_DONE;
	}
	return say_usage(command, "%s '%s': not a time like 500ms, 3s, 2m (1ms at least)", flag,
			 text);
}

/* NAME[,NAME]...; an empty name is a probe's name only if it stands alone. */
static int add_names(struct options *options, const char *names,
		     int (*add)(struct ocp_actions *, const char *))
{
	char *copy = strdup(names), *next = copy, *name;
	int err = 0;

	if (!copy) {
		say("out of memory");
		return EXIT_FAILED;
	}
	while (!err && (name = strsep(&next, ",")))
		err = add(options->actions, name);
	free(copy);
	options->has_actions = true;
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

static int add_all(struct options *options, int (*add)(struct ocp_actions *))
{
	int err = add(options->actions);

	options->has_actions = true;
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

static int apply_flag(const struct command *command, struct options *options, int flag)
{
	switch (flag) {
	case FLAG_COUNT:
		options->count = true;
		return EXIT_DONE;
	case FLAG_DISABLE:
		return add_names(options, optarg, ocp_actions_disable);
	case FLAG_DISABLE_ALL:
		return add_all(options, ocp_actions_disable_all);
	case FLAG_ENABLE:
		return add_names(options, optarg, ocp_actions_enable);
	case FLAG_ENABLE_ALL:
		return add_all(options, ocp_actions_enable_all);
	case FLAG_FIX:
		options->fix = true;
		return EXIT_DONE;
	case FLAG_FOR:
		return parse_time(command, "-for", optarg, &options->for_ns);
	case FLAG_HELP:
		options->help = true;
		return EXIT_DONE;
	case FLAG_INTERVAL:
		return parse_time(command, "-interval", optarg, &options->interval_ns);
	case FLAG_JSON:
		options->json = true;
		return EXIT_DONE;
	case FLAG_PID:
		return parse_pid(command, optarg, &options->pid);
	case FLAG_PROG:
		if (options->prog)
			return say_usage(command, "-prog: given twice");
		options->prog = optarg;
		return EXIT_DONE;
	case FLAG_QUIET:
		options->quiet = true;
		return EXIT_DONE;
	case FLAG_SITES:
		options->sites = true;
		return EXIT_DONE;
	default:
		options->verbose = true;
		return EXIT_DONE;
	}
}

/* Is this flag one that the command takes, and written in full? */
static bool is_taken(const struct command *command, const char *written, const struct option *flag)
{
	size_t bytes = strlen(flag->name);
	char listed[32];

	written += strspn(written, "-");
	if (strncmp(written, flag->name, bytes) != 0 ||
	    (written[bytes] != '\0' && written[bytes] != '='))
		return false;
	snprintf(listed, sizeof(listed), " %s ", flag->name);
	return flag->val == FLAG_HELP || strstr(command->flags, listed);
}

int options_parse(const struct command *command, int argc, char **argv, struct options *options)
{
	int code = EXIT_DONE;

	options->actions = ocp_actions_new(options->ctx);
	if (!options->actions)
		return say_error(options->ctx, -ENOMEM);
	opterr = 0;
	optind = 1;
	while (code == EXIT_DONE) {
		int at = optind, index = -1;
		int flag = getopt_long_only(argc, argv, "+:", flags, &index);

		if (flag < 0)
			break;
		if (flag == FLAG_UNKNOWN ||
		    (index >= 0 && !is_taken(command, argv[at], &flags[index])))
			return say_usage(command, "'%s': no such option", argv[at]);
		if (flag == FLAG_ARGUMENT_MISSING)
			return say_usage(command, "'%s': needs a value", argv[at]);
		code = apply_flag(command, options, flag);
	}
	if (code != EXIT_DONE)
		return code;
	/* optind is behind "--" if there was one. */
	if (optind < argc && strcmp(argv[optind - 1], "--") != 0)
		return say_usage(
			command, "'%s': unexpected%s", argv[optind],
			command == &command_trace ? " (the program's arguments go behind --)" : "");
	if (optind < argc && command != &command_trace)
		return say_usage(command, "'%s': unexpected", argv[optind]);
	options->args = argv + optind;
	options->n_args = argc - optind;
	return EXIT_DONE;
}

void options_free(struct options *options)
{
	ocp_actions_free(options->actions);
	options->actions = NULL;
}

// SPDX-License-Identifier: MIT
/*
 * Parse the command line. A command takes those flags of the table below that its manual page
 * describes (base/help.h).
 *
 * getopt_long_only accepts -flag and --flag. It also accepts abbreviations; this file refuses them,
 * since a new flag could change the meaning of an abbreviation.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/operands.h"

enum flag {
	FLAG_ARGUMENT_MISSING = ':',
	FLAG_UNKNOWN = '?',
	FLAG_ACTIONS = 256,
	FLAG_ATOMICALLY,
	FLAG_FILE,
	FLAG_FIX,
	FLAG_FOLLOW,
	FLAG_FOR,
	FLAG_FORCE,
	FLAG_GIGATEXT,
	FLAG_HELP,
	FLAG_INTERVAL,
	FLAG_JSON,
	FLAG_KEPT,
	FLAG_MEASURE,
	FLAG_OWN,
	FLAG_PID,
	FLAG_QUIET,
	FLAG_SITES,
	FLAG_TABLE,
	FLAG_VERBOSE,
	FLAG_VERSION,
	FLAG_WAIT,
};

static const struct option flags[] = {
	{ "all", no_argument, NULL, FLAG_TABLE },
	{ "alloc", no_argument, NULL, FLAG_OWN },
	{ "atomically", no_argument, NULL, FLAG_ATOMICALLY },
	{ "budget", required_argument, NULL, FLAG_MEASURE },
	{ "batch", required_argument, NULL, FLAG_OWN },
	{ "buckets", required_argument, NULL, FLAG_OWN },
	{ "by", required_argument, NULL, FLAG_MEASURE },
	{ "by-process", no_argument, NULL, FLAG_MEASURE },
	{ "by-site", no_argument, NULL, FLAG_MEASURE },
	{ "by-thread", no_argument, NULL, FLAG_MEASURE },
	{ "callstack", required_argument, NULL, FLAG_OWN },
	{ "children", no_argument, NULL, FLAG_MEASURE },
	{ "args", no_argument, NULL, FLAG_OWN },
	{ "config", required_argument, NULL, FLAG_OWN },
	{ "control", no_argument, NULL, FLAG_OWN },
	{ "cpu", no_argument, NULL, FLAG_OWN },
	{ "count", optional_argument, NULL, FLAG_MEASURE },
	{ "csv", no_argument, NULL, FLAG_MEASURE },
	{ "depth", required_argument, NULL, FLAG_MEASURE },
	{ "diff", required_argument, NULL, FLAG_OWN },
	{ "disable", required_argument, NULL, FLAG_ACTIONS },
	{ "disable-all", no_argument, NULL, FLAG_ACTIONS },
	{ "disable-pair", required_argument, NULL, FLAG_ACTIONS },
	{ "disable-regexp", required_argument, NULL, FLAG_ACTIONS },
	{ "enable", required_argument, NULL, FLAG_ACTIONS },
	{ "enable-all", no_argument, NULL, FLAG_ACTIONS },
	{ "enable-pair", required_argument, NULL, FLAG_ACTIONS },
	{ "enable-regexp", required_argument, NULL, FLAG_ACTIONS },
	{ "engine", required_argument, NULL, FLAG_MEASURE },
	{ "events", required_argument, NULL, FLAG_OWN },
	{ "exe", required_argument, NULL, FLAG_FILE },
	{ "f", no_argument, NULL, FLAG_FORCE },
	{ "filter", required_argument, NULL, FLAG_MEASURE },
	{ "fix", optional_argument, NULL, FLAG_FIX },
	{ "folded", no_argument, NULL, FLAG_OWN },
	{ "follow", no_argument, NULL, FLAG_FOLLOW },
	{ "for", required_argument, NULL, FLAG_FOR },
	{ "force", no_argument, NULL, FLAG_FORCE },
	{ "gc", no_argument, NULL, FLAG_OWN },
	{ "gigatext", no_argument, NULL, FLAG_GIGATEXT },
	{ "h", no_argument, NULL, FLAG_HELP },
	{ "help", no_argument, NULL, FLAG_HELP },
	{ "html", required_argument, NULL, FLAG_OWN },
	{ "hz", required_argument, NULL, FLAG_OWN },
	{ "hist", required_argument, NULL, FLAG_MEASURE },
	{ "interval", required_argument, NULL, FLAG_INTERVAL },
	{ "json", no_argument, NULL, FLAG_JSON },
	{ "keep", required_argument, NULL, FLAG_MEASURE },
	{ "kept", no_argument, NULL, FLAG_KEPT },
	{ "key", required_argument, NULL, FLAG_MEASURE },
	{ "host", required_argument, NULL, FLAG_OWN },
	{ "label-pid", no_argument, NULL, FLAG_OWN },
	{ "lifetimes", no_argument, NULL, FLAG_OWN },
	{ "limit", required_argument, NULL, FLAG_MEASURE },
	{ "listen", required_argument, NULL, FLAG_OWN },
	{ "live", no_argument, NULL, FLAG_OWN },
	{ "memprof", optional_argument, NULL, FLAG_OWN },
	{ "memtrace", required_argument, NULL, FLAG_OWN },
	{ "off-cpu", no_argument, NULL, FLAG_OWN },
	/*
	 * "pid" precedes "p": if two names are equally close to a misspelled flag, the first is
	 * suggested.
	 */
	{ "pid", required_argument, NULL, FLAG_PID },
	{ "p", required_argument, NULL, FLAG_PID },
	{ "pprof", required_argument, NULL, FLAG_OWN },
	{ "profile", no_argument, NULL, FLAG_OWN },
	{ "print", required_argument, NULL, FLAG_MEASURE },
	{ "prog", required_argument, NULL, FLAG_FILE },
	{ "q", no_argument, NULL, FLAG_QUIET },
	{ "quiet", no_argument, NULL, FLAG_QUIET },
	{ "rate", required_argument, NULL, FLAG_OWN },
	{ "sites", no_argument, NULL, FLAG_SITES },
	{ "slower", required_argument, NULL, FLAG_MEASURE },
	{ "sort", required_argument, NULL, FLAG_TABLE },
	{ "token-file", required_argument, NULL, FLAG_OWN },
	{ "stack", optional_argument, NULL, FLAG_MEASURE },
	{ "textfile", required_argument, NULL, FLAG_OWN },
	{ "time", required_argument, NULL, FLAG_MEASURE },
	{ "time-of-day", no_argument, NULL, FLAG_TABLE },
	{ "top", required_argument, NULL, FLAG_TABLE },
	{ "V", no_argument, NULL, FLAG_VERSION },
	{ "v", no_argument, NULL, FLAG_VERBOSE },
	{ "verbose", no_argument, NULL, FLAG_VERBOSE },
	{ "version", no_argument, NULL, FLAG_VERSION },
	{ "wait", no_argument, NULL, FLAG_WAIT },
	{ 0 },
};

const char *find_help_option(const struct help *help, const char *name)
{
	const size_t bytes = strlen(name);

	for (const char *line = help->options; *line; line = strchr(line, '\n') + 1) {
		line += strspn(line, "-");
		if (strncmp(line, name, bytes) == 0 && strchr(" [\n", line[bytes]))
			return line;
	}
	return NULL;
}

bool command_takes(const struct command *command, const char *flag)
{
	return find_help_option(command->help, flag) != NULL;
}

const char *flag_dashes(const struct command *command, const char *flag)
{
	const char *name = find_help_option(command->help, flag);

	return name && name - command->help->options >= 2 && name[-2] == '-' ? "--" : "-";
}

/* Take the value of --exe or -prog as `prog` or as `exe`: see takes_file in struct command. */
static int set_file(const struct command *command, struct options *options, const char *flag)
{
	const char **file = command->takes_file ? &options->prog : &options->exe;

	if (*file)
		return say_usage(command, "%s%s: given twice", flag_dashes(command, flag), flag);
	*file = optarg;
	return EXIT_DONE;
}

/* Parse TEXT, a number with the unit ms, s, m or h; without a unit, it is in seconds. */
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
		if (value > longest_ns)
			return say_usage(command, "%s '%s': longer than 366 days", flag, text);
		/* Written so that NaN, which compares false, is rejected. */
		if (!(value >= 1e6))
			break;
		*ns = (int64_t)value;
		return EXIT_DONE;
	}
	return say_usage(command, "%s '%s': not a time such as 500ms, 3s, 2m or 1h (at least 1ms)",
			 flag, text);
}

/* Parse HOW, the value of --fix: "undo", "complete" or NULL, which means undo. */
static int parse_fix(const struct command *command, const char *how, struct options *options)
{
	bool complete = how && strcmp(how, "complete") == 0;

	if (how && !complete && strcmp(how, "undo") != 0)
		return say_usage(command, "--fix '%s': not undo or complete", how);
	if (options->fix && complete != (options->repair_flags == OCP_COMPLETE))
		return say_usage(command, "--fix: undo and complete are mutually exclusive");
	options->fix = true;
	options->repair_flags = complete ? OCP_COMPLETE : 0;
	return EXIT_DONE;
}

static int apply_flag(const struct command *command, struct options *options, int flag,
		      const char *name)
{
	switch (flag) {
	case FLAG_ACTIONS:
		return options_add_actions(command, options, name, optarg);
	case FLAG_ATOMICALLY:
		options->update_flags |= OCP_ATOMICALLY;
		return EXIT_DONE;
	case FLAG_FILE:
		return set_file(command, options, name);
	case FLAG_FIX:
		return parse_fix(command, optarg, options);
	case FLAG_FOLLOW:
		options->follow = true;
		return EXIT_DONE;
	case FLAG_FOR:
		return parse_time(command, "--for", optarg, &options->for_ns);
	case FLAG_FORCE:
		options->update_flags |= OCP_FORCE;
		return EXIT_DONE;
	case FLAG_GIGATEXT:
		ocp_ctx_allow_gigatext(options->ctx, true);
		return EXIT_DONE;
	case FLAG_HELP:
		options->help = true;
		return EXIT_DONE;
	case FLAG_INTERVAL:
		return parse_time(command, "--interval", optarg, &options->interval_ns);
	case FLAG_JSON:
		options->json = true;
		return EXIT_DONE;
	case FLAG_KEPT:
		options->kept = true;
		return EXIT_DONE;
	case FLAG_MEASURE:
		return measure_options_add(command, options, name, optarg);
	case FLAG_OWN:
		return command->set_own(command, options, name, optarg);
	case FLAG_TABLE:
		return table_options_add(command, options, name, optarg);
	case FLAG_PID:
		return options_take_pid(command, options, name, optarg);
	case FLAG_VERSION:
		options->version = true;
		return EXIT_DONE;
	case FLAG_WAIT:
		options->wait = true;
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

/* Return true if the command takes FLAG, and if WRITTEN is FLAG in full, not an abbreviation. */
static bool is_taken(const struct command *command, const char *written, const struct option *flag)
{
	size_t bytes = strlen(flag->name);

	written += strspn(written, "-");
	return strncmp(written, flag->name, bytes) == 0 &&
	       (written[bytes] == '\0' || written[bytes] == '=') &&
	       command_takes(command, flag->name);
}

static int unknown_flag(const struct command *command, const char *written)
{
	char *name = strdup(written + strspn(written, "-"));
	struct suggestion suggestion;

	if (!name) {
		say("out of memory");
		return EXIT_FAILED;
	}
	name[strcspn(name, "=")] = '\0';
	suggestion = suggestion_for(name);
	for (const struct option *flag = flags; flag->name; flag++)
		if (command_takes(command, flag->name))
			suggestion_offer(&suggestion, flag->name);
	free(name);
	say("%s: '%s': no such option", command->name, written);
	if (suggestion.best)
		fprintf(stderr, "hint: did you mean '%s%s'?\n",
			flag_dashes(command, suggestion.best), suggestion.best);
	else
		fprintf(stderr, "hint: ocaml-probes help %s\n", command->name);
	return EXIT_USAGE;
}

/*
 * Take the next word as the optional value of FLAG: "--count NAME" means "--count=NAME". If the
 * next word is a number, it is a process id instead; after --stack a number could be either, so it
 * is refused. If COMMAND has takes_words, the next word is never the value.
 */
static int take_optional_value(const struct command *command, const struct option *flag, int argc,
			       char **argv)
{
	const char *next = optind < argc ? argv[optind] : "-";

	if (flag->has_arg != optional_argument || optarg || command->takes_words || *next == '-')
		return EXIT_DONE;
	if (!is_number(next))
		optarg = argv[optind++];
	else if (strcmp(flag->name, "stack") == 0)
		return say_usage(command, "'%s': a number alone is a process id; write --stack=%s",
				 next, next);
	return EXIT_DONE;
}

/*
 * Parse the options up to the end or "--". Move the operands between the options to the front of
 * ARGV, and set *N_WORDS to their number.
 */
static int parse_options(const struct command *command, int argc, char **argv,
			 struct options *options, int *n_words)
{
	int code = EXIT_DONE;

	while (code == EXIT_DONE) {
		int at = optind, index = -1;
		int flag = getopt_long_only(argc, argv, "+:", flags, &index);

		if (flag < 0 && optind < argc && strcmp(argv[optind - 1], "--") != 0) {
			argv[(*n_words)++] = argv[optind++];
			continue;
		}
		if (flag < 0)
			break;
		if (flag == FLAG_UNKNOWN ||
		    (index >= 0 && !is_taken(command, argv[at], &flags[index])))
			return unknown_flag(command, argv[at]);
		if (flag == FLAG_ARGUMENT_MISSING)
			return say_usage(command, "'%s': requires a value", argv[at]);
		code = take_optional_value(command, &flags[index], argc, argv);
		if (code == EXIT_DONE)
			code = apply_flag(command, options, flag, flags[index].name);
	}
	return code;
}

int options_parse(const struct command *command, int argc, char **argv, struct options *options)
{
	int code, n_words = 0;

	options->actions = ocp_actions_new(options->ctx);
	if (!options->actions)
		return say_error(options->ctx, -ENOMEM);
	opterr = 0;
	optind = 1;
	code = parse_options(command, argc, argv, options, &n_words);
	if (code != EXIT_DONE)
		return code;
	code = options_take_words(command, options, argv, n_words);
	/* optind is now after "--", if it was given. Numbers after "--" are not process ids. */
	while (command->takes_words && optind < argc)
		argv[options->n_args++] = argv[optind++];
	if (code != EXIT_DONE || command->takes_words)
		return code;
	if (optind < argc && !command->takes_program)
		return say_usage(command, "'%s': unexpected", argv[optind]);
	options->args = argv + optind;
	options->n_args = argc - optind;
	return EXIT_DONE;
}

void options_free(struct options *options)
{
	ocp_actions_free(options->actions);
	measure_request_free(&options->request);
	free(options->pids);
	options->actions = NULL;
	options->pids = NULL;
}

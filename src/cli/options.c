// SPDX-License-Identifier: MIT
/*
 * Parsing the command line. A command takes the flags of the table below that its manual page
 * describes (base/help.h).
 *
 * getopt_long_only accepts -flag and --flag. It also accepts abbreviations; they are refused here,
 * since new flags would change their meaning.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

enum flag {
	FLAG_ARGUMENT_MISSING = ':',
	FLAG_UNKNOWN = '?',
	FLAG_ACTIONS = 256,
	FLAG_ATOMICALLY,
	FLAG_EXE,
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
	FLAG_PROG,
	FLAG_QUIET,
	FLAG_SITES,
	FLAG_VERBOSE,
	FLAG_VERSION,
	FLAG_WAIT,
};

static const struct option flags[] = {
	{ "alloc", no_argument, NULL, FLAG_OWN },
	{ "atomically", no_argument, NULL, FLAG_ATOMICALLY },
	{ "budget", required_argument, NULL, FLAG_MEASURE },
	{ "buckets", required_argument, NULL, FLAG_OWN },
	{ "by-process", no_argument, NULL, FLAG_MEASURE },
	{ "by-site", no_argument, NULL, FLAG_MEASURE },
	{ "by-thread", no_argument, NULL, FLAG_MEASURE },
	{ "children", no_argument, NULL, FLAG_MEASURE },
	{ "config", required_argument, NULL, FLAG_OWN },
	{ "control", no_argument, NULL, FLAG_OWN },
	{ "cpu", no_argument, NULL, FLAG_OWN },
	{ "count", optional_argument, NULL, FLAG_MEASURE },
	{ "csv", no_argument, NULL, FLAG_MEASURE },
	{ "depth", required_argument, NULL, FLAG_MEASURE },
	{ "disable", required_argument, NULL, FLAG_ACTIONS },
	{ "disable-all", no_argument, NULL, FLAG_ACTIONS },
	{ "disable-pair", required_argument, NULL, FLAG_ACTIONS },
	{ "disable-regexp", required_argument, NULL, FLAG_ACTIONS },
	{ "enable", required_argument, NULL, FLAG_ACTIONS },
	{ "enable-all", no_argument, NULL, FLAG_ACTIONS },
	{ "enable-pair", required_argument, NULL, FLAG_ACTIONS },
	{ "enable-regexp", required_argument, NULL, FLAG_ACTIONS },
	{ "exe", required_argument, NULL, FLAG_EXE },
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
	{ "limit", required_argument, NULL, FLAG_MEASURE },
	{ "listen", required_argument, NULL, FLAG_OWN },
	{ "off-cpu", no_argument, NULL, FLAG_OWN },
	{ "pid", required_argument, NULL, FLAG_PID },
	{ "pprof", required_argument, NULL, FLAG_OWN },
	{ "print", required_argument, NULL, FLAG_MEASURE },
	{ "prog", required_argument, NULL, FLAG_PROG },
	{ "q", no_argument, NULL, FLAG_QUIET },
	{ "quiet", no_argument, NULL, FLAG_QUIET },
	{ "sites", no_argument, NULL, FLAG_SITES },
	{ "textfile", required_argument, NULL, FLAG_OWN },
	{ "time", required_argument, NULL, FLAG_MEASURE },
	{ "V", no_argument, NULL, FLAG_VERSION },
	{ "v", no_argument, NULL, FLAG_VERBOSE },
	{ "verbose", no_argument, NULL, FLAG_VERBOSE },
	{ "version", no_argument, NULL, FLAG_VERSION },
	{ "wait", no_argument, NULL, FLAG_WAIT },
	{ 0 },
};

int options_add_pid(struct options *options, pid_t pid)
{
	pid_t *pids;

	for (size_t i = 0; i < options->n_pids; i++)
		if (options->pids[i] == pid)
			return EXIT_DONE;
	pids = realloc(options->pids, (options->n_pids + 1) * sizeof(*pids));
	if (!pids) {
		say("out of memory");
		return EXIT_FAILED;
	}
	options->pids = pids;
	options->pids[options->n_pids++] = pid;
	options->pid = options->pids[0];
	return EXIT_DONE;
}

static int parse_pid(const struct command *command, const char *text, struct options *options)
{
	size_t n_before = options->n_pids;
	char *end;
	long value;
	int code;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value <= 0 || value > INT32_MAX)
		return say_usage(command, "-pid '%s': not a process id", text);
	if (n_before && !command->many_pids)
		return say_usage(command, "-pid: given twice; this command takes one process");
	code = options_add_pid(options, (pid_t)value);
	if (code == EXIT_DONE && options->n_pids == n_before)
		return say_usage(command, "-pid %ld: given twice", value);
	return code;
}

/* Store a text that may be given once. */
static int set_once(const struct command *command, const char *flag, const char **value)
{
	if (*value)
		return say_usage(command, "%s: given twice", flag);
	*value = optarg;
	return EXIT_DONE;
}

/* A time: a number with the unit ms, s, m or h; the default is seconds. */
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
		/* Written so that NaN, which compares false, is rejected. */
		if (!(value >= 1e6 && value <= longest_ns))
			break;
		*ns = (int64_t)value;
		return EXIT_DONE;
	}
	return say_usage(command, "%s '%s': not a time such as 500ms, 3s, 2m or 1h (at least 1ms)",
			 flag, text);
}

/* --fix, --fix=undo or --fix=complete. */
static int parse_fix(const struct command *command, const char *how, struct options *options)
{
	bool complete = how && strcmp(how, "complete") == 0;

	if (how && !complete && strcmp(how, "undo") != 0)
		return say_usage(command, "-fix '%s': not undo or complete", how);
	if (options->fix && complete != (options->repair_flags == OCP_COMPLETE))
		return say_usage(command, "-fix: undo and complete are mutually exclusive");
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
	case FLAG_EXE:
		return set_once(command, "-exe", &options->exe);
	case FLAG_FIX:
		return parse_fix(command, optarg, options);
	case FLAG_FOLLOW:
		options->follow = true;
		return EXIT_DONE;
	case FLAG_FOR:
		return parse_time(command, "-for", optarg, &options->for_ns);
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
		return parse_time(command, "-interval", optarg, &options->interval_ns);
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
	case FLAG_PID:
		return parse_pid(command, optarg, options);
	case FLAG_PROG:
		return set_once(command, "-prog", &options->prog);
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

static bool takes(const struct command *command, const struct option *flag)
{
	return find_help_option(command->help, flag->name) != NULL;
}

/* Does the command take this flag, and is it written in full? */
static bool is_taken(const struct command *command, const char *written, const struct option *flag)
{
	size_t bytes = strlen(flag->name);

	written += strspn(written, "-");
	return strncmp(written, flag->name, bytes) == 0 &&
	       (written[bytes] == '\0' || written[bytes] == '=') && takes(command, flag);
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
		if (takes(command, flag))
			suggestion_offer(&suggestion, flag->name);
	free(name);
	say("%s: '%s': no such option", command->name, written);
	if (suggestion.best)
		fprintf(stderr, "hint: did you mean '-%s'?\n", suggestion.best);
	else
		fprintf(stderr, "hint: ocaml-probes help %s\n", command->name);
	return EXIT_USAGE;
}

int options_parse(const struct command *command, int argc, char **argv, struct options *options)
{
	int code = EXIT_DONE, n_words = 0;

	options->actions = ocp_actions_new(options->ctx);
	if (!options->actions)
		return say_error(options->ctx, -ENOMEM);
	opterr = 0;
	optind = 1;
	while (code == EXIT_DONE) {
		int at = optind, index = -1;
		int flag = getopt_long_only(argc, argv, "+:", flags, &index);

		/* Words may stand between the options; move them to the front. */
		if (flag < 0 && command->takes_words && optind < argc &&
		    strcmp(argv[optind - 1], "--") != 0) {
			argv[n_words++] = argv[optind++];
			continue;
		}
		if (flag < 0)
			break;
		if (flag == FLAG_UNKNOWN ||
		    (index >= 0 && !is_taken(command, argv[at], &flags[index])))
			return unknown_flag(command, argv[at]);
		if (flag == FLAG_ARGUMENT_MISSING)
			return say_usage(command, "'%s': requires a value", argv[at]);
		code = apply_flag(command, options, flag, flags[index].name);
	}
	if (code != EXIT_DONE)
		return code;
	while (command->takes_words && optind < argc)
		argv[n_words++] = argv[optind++];
	if (command->takes_words) {
		options->args = argv;
		options->n_args = n_words;
		return EXIT_DONE;
	}
	/* optind is after "--" if it was given. */
	if (optind < argc && strcmp(argv[optind - 1], "--") != 0)
		return say_usage(command, "'%s': unexpected%s", argv[optind],
				 command->takes_program ? " (put the program's arguments after --)"
							: "");
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

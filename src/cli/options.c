// SPDX-License-Identifier: MIT
/*
 * Parse the command line. A command takes those flags of the table below that its manual page
 * describes (base/help.h).
 *
 * getopt_long_only accepts -flag and --flag. It also accepts abbreviations, but compares them with
 * the flags of all commands. So this file first replaces each abbreviation by the flag of the
 * command that it stands for (base/abbreviation.h).
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/abbreviation.h"
#include "base/array.h"
#include "base/suggest.h"
#include "cli/progress.h"
#include "measure/assertion.h"

/* ---- actions -------------------------------------------------------------------------------- */

/*
 * Parse the flags for actions, such as -enable. The library accepts any mixture of actions, but on
 * the command line a mixture is usually a mistake. So each flag has a kind, and all flags that are
 * given must be of one kind: -enable and -disable are of the same kind, and every other flag is a
 * kind of its own.
 */
enum value_shape {
	LIST,  /* the value of the flag is NAME[,NAME]... */
	ONE,   /* the value of the flag is one text */
	PAIR,  /* the value of the flag is START,STOP */
	WHOLE, /* the flag has no value */
};

struct action_flag {
	const char *name;
	const char *kind; /* only flags of one kind may be combined */
	enum value_shape shape;
	union {
		int (*one)(struct ocp_actions *actions, const char *text); /* for LIST and ONE */
		int (*pair)(struct ocp_actions *actions, const char *start, const char *stop);
		int (*all)(struct ocp_actions *actions);
	};
};

static const struct action_flag action_flags[] = {
	{ "enable", "names", LIST, .one = ocp_actions_enable },
	{ "disable", "names", LIST, .one = ocp_actions_disable },
	{ "enable-pair", "enable-pair", PAIR, .pair = ocp_actions_enable_pair },
	{ "disable-pair", "disable-pair", PAIR, .pair = ocp_actions_disable_pair },
	{ "enable-regexp", "enable-regexp", ONE, .one = ocp_actions_enable_regexp },
	{ "disable-regexp", "disable-regexp", ONE, .one = ocp_actions_disable_regexp },
	{ "enable-all", "enable-all", WHOLE, .all = ocp_actions_enable_all },
	{ "disable-all", "disable-all", WHOLE, .all = ocp_actions_disable_all },
};

static const struct action_flag *find_flag(const char *name)
{
	const struct action_flag *flag = action_flags;

	while (strcmp(flag->name, name) != 0)
		flag++;
	return flag;
}

static bool is_pair(const char *value)
{
	const char *comma = strchr(value, ',');

	return comma && !strchr(comma + 1, ',');
}

/* Add the actions of FLAG with VALUE. Modifies VALUE, to split it. */
static int add_flag_actions(struct ocp_actions *actions, const struct action_flag *flag,
			    char *value)
{
	const char *part;
	int err = 0;

	switch (flag->shape) {
	case LIST:
		/* Keep empty parts: "" is a possible name of a probe, though usually unknown. */
		while (!err && (part = strsep(&value, ",")))
			err = flag->one(actions, part);
		return err;
	case ONE:
		return flag->one(actions, value);
	case PAIR:
		part = strsep(&value, ",");
		return flag->pair(actions, part, value);
	default:
		return flag->all(actions);
	}
}

/*
 * Add the actions of the flag NAME with VALUE to OPTIONS. Return EXIT_DONE, or another code after
 * printing the error.
 */
static int options_add_actions(const struct command *command, struct options *options,
			       const char *name, const char *value)
{
	const struct action_flag *flag = find_flag(name);
	char *copy;
	int err;

	if (options->actions_flag &&
	    strcmp(find_flag(options->actions_flag)->kind, flag->kind) != 0)
		return say_usage(command, "-%s and -%s cannot be combined", options->actions_flag,
				 name);
	options->actions_flag = name;
	if (flag->shape == PAIR && !is_pair(value))
		return say_usage(command, "-%s '%s': not two names START,STOP", name, value);
	copy = strdup(value ? value : "");
	if (!copy) {
		say("out of memory");
		return EXIT_FAILED;
	}
	err = add_flag_actions(options->actions, flag, copy);
	free(copy);
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

/* ---- tables --------------------------------------------------------------------------------- */

static int set_top(const struct command *command, struct table_view *view, const char *value)
{
	unsigned long long n;

	errno = 0;
	n = strtoull(value, NULL, 10);
	if (errno || !is_number(value) || n == 0)
		return say_usage(command, "--top '%s': not a number of rows", value);
	view->top = (size_t)n;
	/* Without --sort, --top implies the order by hits. */
	if (!view->has_order)
		view->order = ORDER_HITS;
	return EXIT_DONE;
}

static int set_order(const struct command *command, struct table_view *view, const char *value)
{
	static const char *const names[] = {
		[ORDER_NAME] = "name",
		[ORDER_HITS] = "hits",
		[ORDER_P99] = "p99",
		[ORDER_SUM] = "sum",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) != 0)
			continue;
		view->order = (enum row_order)i;
		view->has_order = true;
		return EXIT_DONE;
	}
	return say_usage(command, "--sort '%s': not hits, name, p99 or sum", value);
}

/*
 * Take the option NAME with VALUE (NULL: none). Return EXIT_DONE, or EXIT_USAGE after printing the
 * error.
 */
static int table_options_add(const struct command *command, struct options *options,
			     const char *name, const char *value)
{
	if (strcmp(name, "top") == 0)
		return set_top(command, &options->view, value);
	if (strcmp(name, "sort") == 0)
		return set_order(command, &options->view, value);
	if (strcmp(name, "all") == 0)
		options->view.shows_zeros = true;
	else
		options->time_of_day = true;
	return EXIT_DONE;
}

int table_options_check(const struct command *command, const struct options *options)
{
	const struct table_view *view = &options->view;

	if ((view->top || view->has_order) && (options->json || options->csv))
		return say_usage(command, "--top and --sort are for tables; --json and --csv have "
					  "all rows, by name");
	return EXIT_DONE;
}

/* ---- operands: process ids, a program, and words -------------------------------------------- */

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

/*
 * Take TEXT as a process id. FLAG is the option that has the value TEXT; NULL: TEXT is an operand.
 * Return EXIT_DONE, or another code after printing the error.
 */
static int options_take_pid(const struct command *command, struct options *options,
			    const char *flag, const char *text)
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

/*
 * Take WORDS, the N operands before any "--". A number is a process id. If COMMAND takes words, at
 * most one number is a process id, and only if no option names a process or a program; all other
 * operands become the args of OPTIONS.
 */
static int options_take_words(const struct command *command, struct options *options, char **words,
			      int n)
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

/*
 * If COMMAND has takes_running and --exe is given, find the one process that runs the file, and add
 * its pid to OPTIONS.
 */
static int options_find_process(const struct command *command, struct options *options)
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

/* ---- options -------------------------------------------------------------------------------- */

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
	FLAG_OUTPUT,
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
	{ "assert", required_argument, NULL, FLAG_MEASURE },
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
	{ "disk", required_argument, NULL, FLAG_OWN },
	{ "dump", required_argument, NULL, FLAG_OWN },
	{ "enable", required_argument, NULL, FLAG_ACTIONS },
	{ "enable-all", no_argument, NULL, FLAG_ACTIONS },
	{ "enable-pair", required_argument, NULL, FLAG_ACTIONS },
	{ "enable-regexp", required_argument, NULL, FLAG_ACTIONS },
	{ "engine", required_argument, NULL, FLAG_MEASURE },
	{ "events", required_argument, NULL, FLAG_OWN },
	{ "exe", required_argument, NULL, FLAG_FILE },
	{ "f", no_argument, NULL, FLAG_FORCE },
	{ "fail-above", required_argument, NULL, FLAG_OWN },
	{ "filter", required_argument, NULL, FLAG_MEASURE },
	{ "files", required_argument, NULL, FLAG_OWN },
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
	{ "idle", no_argument, NULL, FLAG_OWN },
	{ "interval", required_argument, NULL, FLAG_INTERVAL },
	{ "json", no_argument, NULL, FLAG_JSON },
	{ "keep", required_argument, NULL, FLAG_MEASURE },
	{ "kept", no_argument, NULL, FLAG_KEPT },
	{ "key", required_argument, NULL, FLAG_MEASURE },
	{ "host", required_argument, NULL, FLAG_OWN },
	{ "label-pid", no_argument, NULL, FLAG_OWN },
	{ "last", required_argument, NULL, FLAG_OWN },
	{ "leaf", no_argument, NULL, FLAG_OWN },
	{ "lifetimes", no_argument, NULL, FLAG_OWN },
	{ "limit", required_argument, NULL, FLAG_MEASURE },
	{ "listen", required_argument, NULL, FLAG_OWN },
	{ "live", no_argument, NULL, FLAG_OWN },
	{ "memory", required_argument, NULL, FLAG_OWN },
	{ "memprof", optional_argument, NULL, FLAG_OWN },
	{ "memtrace", required_argument, NULL, FLAG_OWN },
	{ "name", required_argument, NULL, FLAG_OWN },
	{ "no-waits", no_argument, NULL, FLAG_OWN },
	{ "o", required_argument, NULL, FLAG_OUTPUT },
	{ "off-cpu", no_argument, NULL, FLAG_OWN },
	/*
	 * "pid" precedes "p": if two names are equally close to a misspelled flag, the first is
	 * suggested.
	 */
	{ "outermost", no_argument, NULL, FLAG_MEASURE },
	{ "pid", required_argument, NULL, FLAG_PID },
	{ "p", required_argument, NULL, FLAG_PID },
	{ "pprof", required_argument, NULL, FLAG_OWN },
	{ "profile", no_argument, NULL, FLAG_OWN },
	{ "print", required_argument, NULL, FLAG_MEASURE },
	{ "prog", required_argument, NULL, FLAG_FILE },
	{ "q", no_argument, NULL, FLAG_QUIET },
	{ "quiet", no_argument, NULL, FLAG_QUIET },
	{ "rate", required_argument, NULL, FLAG_OWN },
	{ "record", required_argument, NULL, FLAG_OWN },
	{ "sites", no_argument, NULL, FLAG_SITES },
	{ "slower", required_argument, NULL, FLAG_MEASURE },
	{ "sort", required_argument, NULL, FLAG_TABLE },
	{ "token-file", required_argument, NULL, FLAG_OWN },
	{ "stack", optional_argument, NULL, FLAG_MEASURE },
	{ "textfile", required_argument, NULL, FLAG_OWN },
	{ "time", required_argument, NULL, FLAG_MEASURE },
	{ "time-of-day", no_argument, NULL, FLAG_TABLE },
	{ "top", required_argument, NULL, FLAG_TABLE },
	{ "unfold", no_argument, NULL, FLAG_OWN },
	{ "V", no_argument, NULL, FLAG_VERSION },
	{ "v", no_argument, NULL, FLAG_VERBOSE },
	{ "verbose", no_argument, NULL, FLAG_VERBOSE },
	{ "version", no_argument, NULL, FLAG_VERSION },
	{ "when", required_argument, NULL, FLAG_OWN },
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

/* Return the dashes with which the manual page of COMMAND writes FLAG: "--" or "-". */
static const char *flag_dashes(const struct command *command, const char *flag)
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

/* Take the value of -o. */
static int set_output(const struct command *command, struct options *options)
{
	if (options->output)
		return say_usage(command, "-o: given twice");
	if (!*optarg)
		return say_usage(command, "-o: the name of the file is empty");
	options->output = optarg;
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
		if (command->owns_engine && strcmp(name, "engine") == 0)
			return command->set_own(command, options, name, optarg);
		return measure_options_add(command, options, name, optarg);
	case FLAG_OUTPUT:
		return set_output(command, options);
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

/* Return true if COMMAND takes FLAG, and WRITTEN is the full name of FLAG, not an abbreviation. */
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

/* Return the flag of COMMAND that the first BYTES of WRITTEN, without dashes, stand for. */
static struct abbreviation abbreviated_flag(const struct command *command, const char *written,
					    size_t bytes)
{
	struct abbreviation found = abbreviation_of(written, bytes);

	for (const struct option *flag = flags; flag->name; flag++)
		if (command_takes(command, flag->name))
			abbreviation_offer(&found, flag_dashes(command, flag->name), flag->name);
	return found;
}

/*
 * If *WORD is an abbreviated option of COMMAND, replace it by the same option with its full name;
 * options_free() frees this copy. Return EXIT_DONE, also if *WORD is something else, or another
 * code after printing the error: if *WORD is ambiguous.
 */
static int expand_option(const struct command *command, struct options *options, char **word)
{
	const char *written = *word + strspn(*word, "-"), *name;
	const size_t bytes = strcspn(written, "=");
	struct abbreviation found;
	char *expanded, **kept;

	if (**word != '-' || !*written)
		return EXIT_DONE;
	found = abbreviated_flag(command, written, bytes);
	if (abbreviation_is_ambiguous(&found)) {
		say("%s: '%.*s': ambiguous option: %s", command->name,
		    (int)(written - *word + (ptrdiff_t)bytes), *word, found.list);
		return EXIT_USAGE;
	}
	name = strcmp(written, "?") == 0 ? "help" : abbreviation_name(&found);
	if (!name || found.is_exact)
		return EXIT_DONE;
	kept = array_add(options->expanded, options->n_expanded);
	if (kept)
		*kept = NULL;
	if (!kept || asprintf(&expanded, "--%s%s", name, written + bytes) < 0) {
		say("out of memory");
		return EXIT_FAILED;
	}
	*word = *kept = expanded;
	return EXIT_DONE;
}

/*
 * Take the next word as the optional value of FLAG: "--count NAME" means "--count=NAME". If the
 * next word is a number, it is a process id instead. But after --stack, a number could be the value
 * or a process id, so it is refused. If COMMAND has takes_words, the next word is never the value.
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
 * Parse the options up to the end or "--". Move the operands that are between the options to the
 * front of ARGV, and set *N_WORDS to the number of these operands.
 */
static int parse_options(const struct command *command, int argc, char **argv,
			 struct options *options, int *n_words)
{
	int code = EXIT_DONE;

	while (code == EXIT_DONE) {
		int at = optind, index = -1, flag;

		if (at < argc)
			code = expand_option(command, options, &argv[at]);
		if (code != EXIT_DONE)
			return code;
		flag = getopt_long_only(argc, argv, "+:", flags, &index);
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

/*
 * Parse ARGV (ARGV[0] is the command's name) for COMMAND. The caller sets the ctx of OPTIONS
 * before, and calls options_free() afterwards. Return EXIT_DONE, or another code after printing the
 * error: EXIT_USAGE for most errors.
 */
static int options_parse(const struct command *command, int argc, char **argv,
			 struct options *options)
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

static void options_free(struct options *options)
{
	ocp_actions_free(options->actions);
	measure_request_free(&options->request);
	for (size_t i = 0; i < options->n_asserts; i++)
		assertion_free(&options->asserts[i]);
	free(options->asserts);
	options->asserts = NULL;
	options->n_asserts = 0;
	for (size_t i = 0; i < options->n_expanded; i++)
		free(options->expanded[i]);
	free(options->expanded);
	options->expanded = NULL;
	options->n_expanded = 0;
	free(options->pids);
	options->actions = NULL;
	options->pids = NULL;
}

/* ---- running a command ---------------------------------------------------------------------- */

/*
 * Print LINE, a line of the library's log, to stderr. Warnings obey -quiet, other lines need
 * -verbose.
 */
static void write_log_line(void *data, enum ocp_log_level level, const char *line)
{
	const struct options *options = data;

	if (level == OCP_LOG_WARN && !options->quiet)
		say("warning: %s", line);
	else if (level != OCP_LOG_WARN && options->verbose)
		say("%s", line);
}

void reserve_standard_descriptors(void)
{
	int fd;

	/*
	 * open() returns the lowest free number, so this occupies 0, 1 and 2 if they are closed.
	 * O_PATH makes reading and writing fail.
	 */
	do
		fd = open("/dev/null", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int flush_stdout(int code)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || code != EXIT_DONE)
		return code;
	say("standard output: %s", strerror(errno));
	return EXIT_FAILED;
}

int run_command(const struct command *command, int argc, char **argv)
{
	struct options options = { .ctx = ocp_ctx_new() };
	int code;

	if (!options.ctx) {
		say("out of memory");
		return EXIT_FAILED;
	}
	ocp_ctx_set_log(options.ctx, write_log_line, &options, OCP_LOG_DEBUG);
	code = options_parse(command, argc, argv, &options);
	if (code == EXIT_DONE && options.help)
		fputs(command->help->text, stdout);
	else if (code == EXIT_DONE && options.version)
		puts(ocp_version());
	else if (code == EXIT_DONE)
		code = options_find_process(command, &options);
	if (code == EXIT_DONE && !options.help && !options.version)
		code = command->run(&options);
	progress_end();
	options_free(&options);
	ocp_ctx_free(options.ctx);
	return code;
}

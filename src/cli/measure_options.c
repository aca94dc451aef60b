// SPDX-License-Identifier: MIT
/* The options for measuring. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "measure/assertion.h"
#include "measure/stacks.h"

/* Return the exit code for ERR, which is 0 or -ENOMEM. Print a message for -ENOMEM. */
static int code_of(int err)
{
	if (!err)
		return EXIT_DONE;
	say("out of memory");
	return EXIT_FAILED;
}

static int set_split(const struct command *command, struct measure_request *request,
		     enum ocp_split split)
{
	if (request->split != OCP_BY_PROBE && request->split != split)
		return say_usage(command,
				 "--by-site, --by-thread and --by-process are mutually exclusive");
	request->split = split;
	return EXIT_DONE;
}

static int add_time(const struct command *command, struct measure_request *request,
		    const char *value)
{
	const char *comma = strchr(value, ',');
	char *start;
	int err = -ENOMEM;

	if (!comma && item_is_code(value))
		return code_of(measure_request_add_pair(request, value, NULL));
	if (!comma || strchr(comma + 1, ','))
		return say_usage(command, "--time '%s': not two names START,STOP", value);
	start = strndup(value, (size_t)(comma - value));
	if (start)
		err = measure_request_add_pair(request, start, comma + 1);
	free(start);
	return code_of(err);
}

static int set_depth(const struct command *command, struct measure_request *request,
		     const char *value)
{
	char *end;
	long depth;

	errno = 0;
	depth = strtol(value, &end, 10);
	if (errno || end == value || *end || depth < 1 || depth > OCP_MAX_DEPTH)
		return say_usage(command, "--depth '%s': not a number from 1 to %d", value,
				 OCP_MAX_DEPTH);
	request->depth = (unsigned int)depth;
	return EXIT_DONE;
}

static int set_stack(const struct command *command, struct measure_request *request,
		     const char *value)
{
	char *end;
	long depth = MAX_STACK_DEPTH;

	errno = 0;
	if (value)
		depth = strtol(value, &end, 10);
	if (value && (errno || end == value || *end || depth < 1 || depth > MAX_STACK_DEPTH))
		return say_usage(command, "--stack '%s': not a number of frames from 1 to %d",
				 value, MAX_STACK_DEPTH);
	request->stack_depth = (unsigned int)depth;
	return EXIT_DONE;
}

static int set_budget(const struct command *command, struct measure_request *request,
		      const char *value)
{
	char *end;
	double percent;

	request->has_no_budget = strcmp(value, "none") == 0;
	if (request->has_no_budget) {
		request->budget = 0;
		return EXIT_DONE;
	}
	errno = 0;
	percent = strtod(value, &end);
	/* Written so that NaN, which compares false, is rejected. */
	if (errno || end == value || (*end && strcmp(end, "%") != 0) ||
	    !(percent > 0 && percent <= 100000))
		return say_usage(command,
				 "--budget '%s': neither a share of a core, such as 5%%, nor none",
				 value);
	request->budget = percent / 100;
	return EXIT_DONE;
}

static int set_limit(const struct command *command, struct measure_request *request,
		     const char *value)
{
	char *end;

	errno = 0;
	request->print_limit = strtoull(value, &end, 10);
	if (errno || end == value || *end || *value == '-')
		return say_usage(command, "--limit '%s': not a number of hits per second", value);
	request->has_print_limit = true;
	return EXIT_DONE;
}

/* Parse VALUE, a time with a unit; 0 needs no unit. */
static int set_slower(const struct command *command, struct measure_request *request,
		      const char *value)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "ns", 1 },  { "us", 1e3 }, { "ms", 1e6 },
		      { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 } };
	const double longest_ns = 1e9 * 86400;
	char *end;
	double number;

	if (request->has_slower)
		return say_usage(command, "--slower: given twice");
	errno = 0;
	number = strtod(value, &end);
	request->has_slower = end != value && !*end && number == 0;
	for (size_t i = 0; !errno && end != value && i < sizeof(units) / sizeof(units[0]); i++) {
		const double ns = number * units[i].ns;

		/* Written so that NaN, which compares false, is rejected. */
		if (strcmp(end, units[i].unit) != 0 || !(ns >= 0 && ns <= longest_ns))
			continue;
		request->slower_ns = (uint64_t)(ns + 0.5);
		request->has_slower = true;
	}
	if (request->has_slower)
		return EXIT_DONE;
	return say_usage(command, "--slower '%s': not a time such as 500us, 10ms or 1.5s", value);
}

static int set_engine(const struct command *command, struct options *options, const char *value)
{
	if (engine_choice_read(value, &options->engine))
		return EXIT_DONE;
	return say_usage(command, "--engine '%s': not bpf, inside or auto", value);
}

static int set_once(const struct command *command, const char *flag, char **to, const char *value)
{
	if (*to)
		return say_usage(command, "--%s: given twice", flag);
	return code_of(measure_request_set_text(to, value));
}

static int add_assert(const struct command *command, struct options *options, const char *value)
{
	struct assertion *new = array_add(options->asserts, options->n_asserts);
	const char *why;
	int err = new ? assertion_parse(value, new, &why) : -ENOMEM;

	return err == -EINVAL ? say_usage(command, "--assert '%s': %s", value, why) : code_of(err);
}

static int add_count(struct measure_request *request, const char *value)
{
	return code_of(value ? items_add_text(&request->counted, value)
			     : items_add(&request->counted, ITEM_ALL_PROBES, NULL));
}

/*
 * If NAME is an option about arguments, printed hits or slow pairs, handle it and set *IS_ONE to
 * true. Otherwise set *IS_ONE to false. Return EXIT_DONE, or another code after printing the error.
 */
static int add_arguments(const struct command *command, struct measure_request *request,
			 const char *name, const char *value, bool *is_one)
{
	*is_one = true;
	if (strcmp(name, "print") == 0)
		return code_of(items_add_text(&request->printed, value));
	if (strcmp(name, "limit") == 0)
		return set_limit(command, request, value);
	if (strcmp(name, "slower") == 0)
		return set_slower(command, request, value);
	if (strcmp(name, "key") == 0)
		return set_once(command, name, &request->key, value);
	if (strcmp(name, "filter") == 0)
		return set_once(command, name, &request->filter, value);
	if (strcmp(name, "hist") == 0)
		return set_once(command, name, &request->hist, value);
	if (strcmp(name, "by") == 0)
		return set_once(command, name, &request->by, value);
	*is_one = false;
	return EXIT_DONE;
}

int measure_options_add(const struct command *command, struct options *options, const char *name,
			const char *value)
{
	struct measure_request *request = &options->request;
	bool is_one;
	int code = add_arguments(command, request, name, value, &is_one);

	if (is_one)
		return code;
	if (strcmp(name, "count") == 0)
		return add_count(request, value);
	if (strcmp(name, "time") == 0)
		return add_time(command, request, value);
	if (strcmp(name, "by-site") == 0)
		return set_split(command, request, OCP_BY_SITE);
	if (strcmp(name, "by-thread") == 0)
		return set_split(command, request, OCP_BY_THREAD);
	if (strcmp(name, "by-process") == 0)
		return set_split(command, request, OCP_BY_PROCESS);
	if (strcmp(name, "depth") == 0)
		return set_depth(command, request, value);
	if (strcmp(name, "budget") == 0)
		return set_budget(command, request, value);
	if (strcmp(name, "stack") == 0)
		return set_stack(command, request, value);
	if (strcmp(name, "engine") == 0)
		return set_engine(command, options, value);
	if (strcmp(name, "assert") == 0)
		return add_assert(command, options, value);
	if (strcmp(name, "keep") == 0)
		options->keep = value;
	else if (strcmp(name, "children") == 0)
		request->children = true;
	else if (strcmp(name, "outermost") == 0)
		request->is_outermost = true;
	else
		options->csv = true;
	return EXIT_DONE;
}

int measure_options_count_all(struct options *options)
{
	return options->request.counted.n ? EXIT_DONE : add_count(&options->request, NULL);
}

bool options_measure(const struct options *options)
{
	return !measure_request_is_empty(&options->request);
}

int measure_options_check_program(const struct command *command, const struct options *options)
{
	if (options->n_pids || options->exe || !measure_request_has_code(&options->request))
		return EXIT_DONE;
	return say_usage(command, "fn:, c:, gc: and line: require -pid or --exe");
}

void measure_options_protect_all(struct options *options)
{
	if (!options->n_pids && !options->exe && options->request.budget <= 0 &&
	    !options->request.has_no_budget)
		options->request.budget = ALL_PROGRAMS_PERCENT / 100.0;
}

static int check_request(const struct command *command, const struct measure_request *request)
{
	static const char *const messages[REQUEST_FAULTS] = {
		[REQUEST_SPLIT_WITHOUT_COUNT] =
			"--by-site, --by-thread and --by-process require --count",
		[REQUEST_DEPTH_WITHOUT_PAIR] = "--depth requires --time",
		[REQUEST_KEY_WITHOUT_PAIR] = "--key requires --time",
		[REQUEST_DEPTH_AND_KEY] = "--depth and --key are mutually exclusive",
		[REQUEST_HIST_WITHOUT_COUNT] = "--hist needs --count=NAME",
		[REQUEST_LIMIT_WITHOUT_PRINT] = "--limit requires --print or --slower",
		[REQUEST_SLOWER_WITHOUT_PAIR] = "--slower requires --time",
		[REQUEST_SLOWER_AND_STACK] = "--slower and --stack are mutually exclusive",
		[REQUEST_OUTERMOST_WITHOUT_FUNCTION] =
			"--outermost needs --count or --time of functions (fn:), and nothing else",
		[REQUEST_OUTERMOST_AND_OTHERS] =
			"--outermost excludes --print, --slower, --stack, --filter, --hist, --by",
		[REQUEST_STACK_WITHOUT_PROBE] = "--stack requires --count, --time or --print",
		[REQUEST_STACK_AND_SPLIT] = "--stack excludes --by-thread and --by-process",
		[REQUEST_BY_WITHOUT_PROBE] = "--by needs --count=NAME or --time",
		[REQUEST_BY_AND_SPLIT] = "--by excludes --by-site, --by-thread and --by-process",
		[REQUEST_BY_AND_STACK] = "--by and --stack are mutually exclusive",
		[REQUEST_BY_AND_SLOWER] = "--by and --slower are mutually exclusive",
		[REQUEST_BY_AND_CODE] =
			"--by needs arguments; c:, gc:, line: and note: have no arguments",
	};
	const enum request_fault fault = measure_request_check(request);

	return fault == REQUEST_FINE ? EXIT_DONE : say_usage(command, "%s", messages[fault]);
}

static int check_tables(const struct command *command, const struct options *options)
{
	const struct measure_request *request = &options->request;
	const struct table_view *view = &options->view;

	if ((view->top || view->has_order) && !request->counted.n &&
	    !measure_request_has_pairs(request))
		return say_usage(command, "--top and --sort need --count or --time");
	if ((view->order == ORDER_P99 || view->order == ORDER_SUM) &&
	    !measure_request_has_pairs(request))
		return say_usage(command, "--sort %s needs --time",
				 view->order == ORDER_P99 ? "p99" : "sum");
	if (view->shows_zeros && !request->counted.n)
		return say_usage(command, "--all needs --count");
	if (options->time_of_day && !options->interval_ns && !request->printed.n &&
	    !request->has_slower)
		return say_usage(command, "--time-of-day needs --interval, --print or --slower");
	if (options->keep && (view->top || view->has_order || view->shows_zeros))
		return say_usage(command, "--keep excludes --top, --sort and --all; `read` and "
					  "`detach` have them");
	return table_options_check(command, options);
}

const char *measure_options_need_bpf(const struct options *options)
{
	if (options->exe)
		return "--exe";
	if (options->keep && options->request.split == OCP_BY_PROCESS)
		return "--keep with --by-process";
	return measure_request_needs_bpf(&options->request);
}

/*
 * Like measure_options_need_bpf(), for commands with `watches`. These commands measure each process
 * separately, so for them --exe does not require BPF.
 */
static const char *watching_needs_bpf(const struct options *options)
{
	return options->request.budget > 0 ? "--budget"
					   : measure_request_watch_needs_bpf(&options->request);
}

static int check_engine(const struct command *command, const struct options *options)
{
	const char *need =
		command->watches ? watching_needs_bpf(options) : measure_options_need_bpf(options);

	if (options->engine != ENGINE_DEFAULT && !options_measure(options))
		return say_usage(command, "--engine needs --count or --time");
	if (options->engine == ENGINE_INSIDE && command->watches && !options->n_pids &&
	    !options->exe)
		return say_usage(command, "--engine inside requires -pid or --exe");
	if (options->engine == ENGINE_INSIDE && need)
		return say_usage(command, "--engine inside excludes %s", need);
	return EXIT_DONE;
}

bool measure_request_times(const struct measure_request *request, const struct assertion *assertion)
{
	for (size_t i = 0; i < request->n_pairs; i++)
		if (assertion_names_pair(assertion, request->pairs[i].start.text,
					 request_pair_stop(&request->pairs[i])))
			return true;
	return false;
}

/*
 * Check what can be checked of the assertions before any process is read: that times are measured,
 * and that something is counted if numbers are asserted.
 */
static int check_asserts(const struct command *command, const struct options *options)
{
	for (size_t i = 0; i < options->n_asserts; i++) {
		const struct assertion *a = &options->asserts[i];

		if (options->keep)
			return say_usage(command,
					 "--keep excludes --assert '%s': it is decided by "
					 "the running tool",
					 a->text);
		if (measure_request_times(&options->request, a))
			continue;
		if (assertion_is_about_time(a))
			return say_usage(command, "--assert '%s': no --time measures '%s'", a->text,
					 a->subject);
		if (!options->request.counted.n)
			return say_usage(command,
					 "--assert '%s': neither --count nor --time "
					 "measures '%s'",
					 a->text, a->subject);
	}
	return EXIT_DONE;
}

int measure_options_check(const struct command *command, const struct options *options)
{
	const struct measure_request *request = &options->request;
	const bool measures = options_measure(options);
	int code;

	if (!measures && (options->interval_ns || options->json || options->csv ||
			  request->children || request->budget > 0 || request->filter))
		return say_usage(command,
				 "--interval, --json, --csv, --children, --budget and --filter "
				 "require --count, --time or --print");
	code = check_request(command, request);
	if (code == EXIT_DONE)
		code = check_engine(command, options);
	if (code == EXIT_DONE)
		code = check_asserts(command, options);
	if (code != EXIT_DONE)
		return code;
	if (options->output && !measures)
		return say_usage(command, "-o '%s': requires --count, --time or --print",
				 options->output);
	if (options->output && options->keep)
		return say_usage(command, "--keep excludes -o: `read` and `detach` print the "
					  "totals");
	if (options->keep && !measures)
		return say_usage(command, "--keep needs --count=NAME or --time START,STOP");
	if (options->keep && (options->for_ns || options->interval_ns || options->json ||
			      options->csv || request->budget > 0))
		return say_usage(command,
				 "--keep excludes --for, --interval, --json, --csv and --budget");
	if (options->keep && (request->printed.n || request->hist))
		return say_usage(command, "--keep excludes --print and --hist");
	if (options->keep && request->has_slower)
		return say_usage(command, "--keep excludes --slower: slow pairs are printed by the "
					  "running tool");
	if (options->csv && request->has_slower)
		return say_usage(command, "--csv excludes --slower; --json has slow pairs");
	if (options->keep && request->is_outermost)
		return say_usage(command, "--keep excludes --outermost: stacks are walked for the "
					  "running tool");
	if (options->keep && request->by)
		return say_usage(command, "--keep excludes --by: groups are read by the running "
					  "tool");
	if (options->keep && request->stack_depth)
		return say_usage(command, "--keep excludes --stack: stacks are read by the running "
					  "tool");
	if (options->json && options->csv)
		return say_usage(command, "--json and --csv are mutually exclusive");
	if (options->csv && request->stack_depth)
		return say_usage(command, "--csv excludes --stack; --json has stacks");
	return check_tables(command, options);
}

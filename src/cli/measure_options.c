// SPDX-License-Identifier: MIT
/* The options for measuring. */
#include "cli/measure_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

/* The exit code for ERR, which is 0 or -ENOMEM. */
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

static int set_budget(const struct command *command, struct measure_request *request,
		      const char *value)
{
	char *end;
	double percent;

	errno = 0;
	percent = strtod(value, &end);
	/* Written so that NaN, which compares false, is rejected. */
	if (errno || end == value || (*end && strcmp(end, "%") != 0) ||
	    !(percent > 0 && percent <= 100000))
		return say_usage(command, "--budget '%s': not a share of a core, such as 5%%",
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

static int set_once(const struct command *command, const char *flag, char **to, const char *value)
{
	if (*to)
		return say_usage(command, "--%s: given twice", flag);
	return code_of(measure_request_set_text(to, value));
}

static int add_count(struct measure_request *request, const char *value)
{
	return code_of(value ? items_add_text(&request->counted, value)
			     : items_add(&request->counted, ITEM_ALL_PROBES, NULL));
}

/* Take NAME if it is an option about arguments; *IS_ONE says whether it is. */
static int add_arguments(const struct command *command, struct measure_request *request,
			 const char *name, const char *value, bool *is_one)
{
	*is_one = true;
	if (strcmp(name, "print") == 0)
		return code_of(items_add_text(&request->printed, value));
	if (strcmp(name, "limit") == 0)
		return set_limit(command, request, value);
	if (strcmp(name, "key") == 0)
		return set_once(command, name, &request->key, value);
	if (strcmp(name, "filter") == 0)
		return set_once(command, name, &request->filter, value);
	if (strcmp(name, "hist") == 0)
		return set_once(command, name, &request->hist, value);
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
	if (strcmp(name, "keep") == 0)
		options->keep = value;
	else if (strcmp(name, "children") == 0)
		request->children = true;
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
	if (!options->n_pids && !options->exe && options->request.budget <= 0)
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
		[REQUEST_HIST_WITHOUT_COUNT] = "--hist requires --count",
		[REQUEST_LIMIT_WITHOUT_PRINT] = "--limit requires --print",
	};
	const enum request_fault fault = measure_request_check(request);

	return fault == REQUEST_FINE ? EXIT_DONE : say_usage(command, "%s", messages[fault]);
}

int measure_options_check(const struct command *command, const struct options *options)
{
	const struct measure_request *request = &options->request;
	const bool measures = options_measure(options);
	int code;

	if (!measures && (options->interval_ns || options->json || options->csv ||
			  request->children || request->budget > 0 || request->filter))
		return say_usage(command, "-interval, -json, -csv, -children, -budget and -filter "
					  "require --count, --time or --print");
	code = check_request(command, request);
	if (code != EXIT_DONE)
		return code;
	if (options->keep && (!measures || options->for_ns || options->interval_ns ||
			      options->json || options->csv || request->budget > 0))
		return say_usage(command, "--keep requires --count or --time, and excludes "
					  "-for, -interval, -json, -csv and -budget");
	if (options->keep && (request->printed.n || request->hist))
		return say_usage(command, "--keep excludes --print and --hist");
	if (options->json && options->csv)
		return say_usage(command, "-json and -csv are mutually exclusive");
	return EXIT_DONE;
}

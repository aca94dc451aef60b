// SPDX-License-Identifier: MIT
/*
 * The flags that ask for measuring. --count and --time take names; where one text is either a list
 * of names or a regular expression, it is names if nothing else than names and commas is in it.
 */
#include "cli/measure_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static int append(const char ***list, size_t *n, const char *value)
{
	const char **grown = realloc(*list, (*n + 1) * sizeof(*grown));

	if (!grown) {
		say("out of memory");
		return EXIT_FAILED;
	}
	*list = grown;
	grown[(*n)++] = value;
	return EXIT_DONE;
}

static int set_split(const struct command *command, struct measure_options *options,
		     enum ocp_split split)
{
	if (options->split != OCP_BY_PROBE && options->split != split)
		return say_usage(command, "--by-site, --by-thread and --by-process: one of them");
	options->split = split;
	return EXIT_DONE;
}

static int add_time(const struct command *command, struct measure_options *options,
		    const char *value)
{
	const char *comma = strchr(value, ',');

	if (!comma || strchr(comma + 1, ','))
		return say_usage(command, "--time '%s': not two names START,STOP", value);
	return append(&options->times, &options->n_times, value);
}

static int set_depth(const struct command *command, struct measure_options *options,
		     const char *value)
{
	char *end;
	long depth;

	errno = 0;
	depth = strtol(value, &end, 10);
	if (errno || end == value || *end || depth < 1 || depth > OCP_MAX_DEPTH)
		return say_usage(command, "--depth '%s': not a number from 1 to %d", value,
				 OCP_MAX_DEPTH);
	options->depth = (unsigned int)depth;
	return EXIT_DONE;
}

static int set_budget(const struct command *command, struct measure_options *options,
		      const char *value)
{
	char *end;
	double percent;

	errno = 0;
	percent = strtod(value, &end);
	/* Not the other way round: NaN compares false. */
	if (errno || end == value || (*end && strcmp(end, "%") != 0) ||
	    !(percent > 0 && percent <= 100000))
		return say_usage(command, "--budget '%s': not a share of a core like 5%%", value);
	options->budget = percent / 100;
	return EXIT_DONE;
}

static int set_limit(const struct command *command, struct measure_options *options,
		     const char *value)
{
	char *end;

	errno = 0;
	options->limit = strtoull(value, &end, 10);
	if (errno || end == value || *end || *value == '-')
		return say_usage(command, "--limit '%s': not a number of hits a second", value);
	options->has_limit = true;
	return EXIT_DONE;
}

static int set_once(const struct command *command, const char *flag, const char **to,
		    const char *value)
{
	if (*to)
		return say_usage(command, "--%s: given twice", flag);
	*to = value;
	return EXIT_DONE;
}

/* The flags that concern arguments; *IS_ONE says whether NAME is one. */
static int add_arguments(const struct command *command, struct measure_options *options,
			 const char *name, const char *value, bool *is_one)
{
	*is_one = true;
	if (strcmp(name, "print") == 0) {
		options->flag = name;
		return append(&options->prints, &options->n_prints, value);
	}
	if (strcmp(name, "limit") == 0)
		return set_limit(command, options, value);
	if (strcmp(name, "key") == 0)
		return set_once(command, name, &options->key, value);
	if (strcmp(name, "filter") == 0)
		return set_once(command, name, &options->filter, value);
	if (strcmp(name, "hist") == 0)
		return set_once(command, name, &options->hist, value);
	*is_one = false;
	return EXIT_DONE;
}

int measure_options_add(const struct command *command, struct measure_options *options,
			const char *name, const char *value)
{
	bool is_one;
	int code = add_arguments(command, options, name, value, &is_one);

	if (is_one)
		return code;
	if (strcmp(name, "count") == 0) {
		options->flag = name;
		return append(&options->counts, &options->n_counts, value);
	}
	if (strcmp(name, "time") == 0) {
		options->flag = name;
		return add_time(command, options, value);
	}
	if (strcmp(name, "by-site") == 0)
		return set_split(command, options, OCP_BY_SITE);
	if (strcmp(name, "by-thread") == 0)
		return set_split(command, options, OCP_BY_THREAD);
	if (strcmp(name, "by-process") == 0)
		return set_split(command, options, OCP_BY_PROCESS);
	if (strcmp(name, "depth") == 0)
		return set_depth(command, options, value);
	if (strcmp(name, "budget") == 0)
		return set_budget(command, options, value);
	if (strcmp(name, "keep") == 0)
		options->keep = value;
	else if (strcmp(name, "children") == 0)
		options->children = true;
	else
		options->csv = true;
	return EXIT_DONE;
}

void measure_options_protect_all(struct options *options)
{
	if (!options->n_pids && !options->exe && options->measure.budget <= 0)
		options->measure.budget = ALL_PROGRAMS_PERCENT / 100.0;
}

void measure_options_free(struct measure_options *options)
{
	free(options->counts);
	free(options->times);
	free(options->prints);
	*options = (struct measure_options){ 0 };
}

int measure_options_check(const struct command *command, const struct options *options)
{
	const struct measure_options *measure = &options->measure;

	if (!measure->flag && (options->interval_ns || options->json || measure->csv ||
			       measure->children || measure->budget > 0 || measure->filter))
		return say_usage(command, "-interval, -json, -csv, -children, -budget and -filter "
					  "go with --count, --time or --print");
	if (!measure->n_counts && measure->split != OCP_BY_PROBE)
		return say_usage(command,
				 "--by-site, --by-thread and --by-process go with --count");
	if (!measure->n_times && measure->depth)
		return say_usage(command, "--depth goes with --time");
	if (!measure->n_times && measure->key)
		return say_usage(command, "--key goes with --time");
	if (measure->key && measure->depth)
		return say_usage(command, "--depth and --key: one of them");
	if (!measure->n_counts && measure->hist)
		return say_usage(command, "--hist goes with --count");
	if (!measure->n_prints && measure->has_limit)
		return say_usage(command, "--limit goes with --print");
	if (measure->keep && (!measure->flag || options->for_ns || options->interval_ns ||
			      options->json || measure->csv || measure->budget > 0))
		return say_usage(command,
				 "--keep goes with --count or --time, and nothing is "
				 "printed: not with -for, -interval, -json, -csv, -budget");
	if (measure->keep && (measure->n_prints || measure->hist))
		return say_usage(command, "--keep goes with neither --print nor --hist");
	if (options->json && measure->csv)
		return say_usage(command, "-json and -csv: one of them");
	return EXIT_DONE;
}

/* ---- for the meter -------------------------------------------------------------------------- */

/* Every part of VALUE between commas. */
static int add_names(struct ocp_meter *meter, const char *value,
		     int (*add)(struct ocp_meter *meter, const char *name))
{
	char *copy = strdup(value), *rest = copy;
	const char *name;
	int err = copy ? 0 : -ENOMEM;

	while (!err && (name = strsep(&rest, ",")))
		err = add(meter, name);
	free(copy);
	return err;
}

static int apply_count(struct ocp_meter *meter, const char *value)
{
	if (!value)
		return ocp_meter_count_all(meter);
	if (value[strspn(value, NAME_CHARACTERS ",")] == '\0')
		return add_names(meter, value, ocp_meter_count);
	return ocp_meter_count_regexp(meter, value);
}

static int apply_print(struct ocp_meter *meter, const char *value)
{
	if (value[strspn(value, NAME_CHARACTERS ",")] == '\0')
		return add_names(meter, value, ocp_meter_print);
	return ocp_meter_print_regexp(meter, value);
}

static int apply_arguments(const struct measure_options *options, struct ocp_meter *meter)
{
	int err = 0;

	for (size_t i = 0; !err && i < options->n_prints; i++)
		err = apply_print(meter, options->prints[i]);
	if (!err && options->filter)
		err = ocp_meter_filter(meter, options->filter);
	if (!err && options->key)
		err = ocp_meter_set_key(meter, options->key);
	if (!err && options->hist)
		err = ocp_meter_histogram(meter, options->hist);
	if (options->has_limit)
		ocp_meter_set_print_limit(meter, options->limit);
	return err;
}

static int apply_time(struct ocp_meter *meter, const char *value)
{
	const size_t bytes = strcspn(value, ",");
	char *start = strndup(value, bytes);
	int err = start ? ocp_meter_time(meter, start, value + bytes + 1) : -ENOMEM;

	free(start);
	return err;
}

int measure_options_apply(const struct measure_options *options, struct ocp_meter *meter)
{
	int err = 0;

	for (size_t i = 0; !err && i < options->n_counts; i++)
		err = apply_count(meter, options->counts[i]);
	for (size_t i = 0; !err && i < options->n_times; i++)
		err = apply_time(meter, options->times[i]);
	if (!err && options->depth)
		err = ocp_meter_set_depth(meter, options->depth);
	if (!err)
		err = apply_arguments(options, meter);
	if (options->children)
		ocp_meter_follow_children(meter);
	ocp_meter_split(meter, options->split);
	return err;
}

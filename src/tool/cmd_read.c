// SPDX-License-Identifier: MIT
/*
 * `read` prints the totals of a meter; `detach` prints them and ends the meter. The meter was kept
 * by `attach --keep`, or counts inside a process.
 */
#include <errno.h>
#include <stdio.h>

#include "base/plural.h"
#include "measure/found.h"
#include "measure/meter.h"
#include "tool/commands.h"
#include "tool/writer.h"

static const struct writer *choose_writer(const struct options *options)
{
	return options->json ? &json_writer : options->csv ? &csv_writer : &table_writer;
}

/*
 * Say which processes count. Forked children share the counters. The counts of a process are lost
 * when the process and its children have ended.
 */
static void say_who_counts(const struct options *options, const struct ocp_meter *meter)
{
	const size_t n_asked = meter->n_asked, n = ocp_meter_process_count(meter) - n_asked;
	int pid;

	/* Only a meter that was found inside processes (is_found) knows which processes count. */
	if (options->quiet || !meter->is_found || (!n && meter->n_alive == n_asked))
		return;
	pid = (int)ocp_meter_process(meter, 0);
	if (n_asked > 1)
		say("%zu of %zu processes still count; the totals include %zu "
		    "process%s that the processes have forked",
		    meter->n_alive, n_asked, n, plural_es(n));
	else if (!meter->n_alive)
		say("pid %d no longer counts; the totals include it and %zu process%s that "
		    "it has forked, which still count",
		    pid, n, plural_es(n));
	else
		say("the totals are those of pid %d and of %zu process%s that it has forked", pid,
		    n, plural_es(n));
}

static int write_total(const struct options *options, struct ocp_meter *meter)
{
	struct ocp_sample *sample;
	struct ocp_costs costs;
	int err = ocp_meter_read(meter, &sample);

	if (err)
		return say_error(options->ctx, err);
	ocp_meter_costs(meter, &costs);
	choose_writer(options)->write(&(struct report){
		.sample = sample,
		.at_ns = ocp_sample_time_ns(sample),
		.is_total = true,
		.is_first = true,
		.split = ocp_meter_get_split(meter),
		.view = &options->view,
		.costs = &costs,
		.engine = meter_is_inside(meter) ? "inside" : "bpf",
	});
	ocp_sample_free(sample);
	return EXIT_DONE;
}

static int check_read_usage(const struct command *command, const struct options *options)
{
	if (options->n_args != !options->pid)
		return say_usage(command, options->pid ? "-pid and a name are mutually exclusive"
						       : "one name, or -pid, is required");
	if (options->json && options->csv)
		return say_usage(command, "--json and --csv are mutually exclusive");
	return table_options_check(command, options);
}

static int open_kept_meter(const struct options *options, struct ocp_meter **meter)
{
	if (options->pid)
		return found_open_pid(options->ctx, options->pid, meter);
	return ocp_pinned_open(options->ctx, options->args[0], meter);
}

static int run_read(struct options *options)
{
	struct ocp_meter *meter;
	int err, code = check_read_usage(&command_read, options);

	if (code != EXIT_DONE)
		return code;
	err = open_kept_meter(options, &meter);
	if (err)
		return say_error(options->ctx, err);
	say_who_counts(options, meter);
	code = write_total(options, meter);
	ocp_meter_free(meter);
	return code;
}

/* Remove an incomplete meter, which has no totals to print. */
static int remove_incomplete(const struct options *options)
{
	int err = options->pid ? found_remove(options->ctx, NULL, options->pid)
			       : ocp_pinned_remove(options->ctx, options->args[0]);

	if (err)
		return say_error(options->ctx, err);
	if (options->pid)
		say("pid %d: what counted inside of it was incomplete: removed", (int)options->pid);
	else
		say("'%s' was incomplete: removed", options->args[0]);
	return EXIT_DONE;
}

/*
 * Return an error if a running tool counts in the process: detaching would take the counters from
 * that tool.
 */
static int check_tool(const struct options *options)
{
	const pid_t tool = options->pid ? found_living_tool(options->ctx, options->pid) : 0;

	if (!tool)
		return EXIT_DONE;
	say("pid %d: is being counted by the tool with pid %d", (int)options->pid, (int)tool);
	fprintf(stderr, "hint: kill -INT %d ends that tool, which then prints its totals\n",
		(int)tool);
	return EXIT_BUSY;
}

static int run_detach(struct options *options)
{
	struct ocp_meter *meter;
	int err, code = check_read_usage(&command_detach, options);

	if (code == EXIT_DONE)
		code = check_tool(options);
	if (code != EXIT_DONE)
		return code;
	err = open_kept_meter(options, &meter);
	if (err == -EBADMSG)
		return remove_incomplete(options);
	if (err)
		return say_error(options->ctx, err);
	say_who_counts(options, meter);
	err = ocp_meter_detach(meter);
	code = err ? say_error(options->ctx, err) : write_total(options, meter);
	ocp_meter_free(meter);
	return code;
}

/*
 * Return true: a word of digits is a name and not a process id, since names of meters can consist
 * of digits.
 */
static bool keeps_number(const struct options *options, const char *word)
{
	(void)options;
	(void)word;
	return true;
}

const struct command command_read = {
	.name = "read",
	.help = &help_read,
	.takes_words = true,
	.keeps_number = keeps_number,
	.run = run_read,
};

const struct command command_detach = {
	.name = "detach",
	.help = &help_detach,
	.takes_words = true,
	.keeps_number = keeps_number,
	.run = run_detach,
};

// SPDX-License-Identifier: MIT
/* `read` and `detach`, for meters kept by `attach --keep`. */
#include <errno.h>

#include "tool/commands.h"
#include "tool/writer.h"

static const struct writer *choose_writer(const struct options *options)
{
	return options->json ? &json_writer : options->csv ? &csv_writer : &table_writer;
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
	});
	ocp_sample_free(sample);
	return EXIT_DONE;
}

static int check_usage(const struct command *command, const struct options *options)
{
	if (options->n_args != 1)
		return say_usage(command, "one name is required");
	if (options->json && options->csv)
		return say_usage(command, "-json and -csv are mutually exclusive");
	return table_options_check(command, options);
}

static int run_read(struct options *options)
{
	struct ocp_meter *meter;
	int err, code = check_usage(&command_read, options);

	if (code != EXIT_DONE)
		return code;
	err = ocp_pinned_open(options->ctx, options->args[0], &meter);
	if (err)
		return say_error(options->ctx, err);
	code = write_total(options, meter);
	ocp_meter_free(meter);
	return code;
}

/* An incomplete meter has no totals, but can be removed. */
static int remove_incomplete(const struct options *options)
{
	int err = ocp_pinned_remove(options->ctx, options->args[0]);

	if (err)
		return say_error(options->ctx, err);
	say("'%s' was incomplete: removed", options->args[0]);
	return EXIT_DONE;
}

static int run_detach(struct options *options)
{
	struct ocp_meter *meter;
	int err, code = check_usage(&command_detach, options);

	if (code != EXIT_DONE)
		return code;
	err = ocp_pinned_open(options->ctx, options->args[0], &meter);
	if (err == -EBADMSG)
		return remove_incomplete(options);
	if (err)
		return say_error(options->ctx, err);
	err = ocp_meter_detach(meter);
	code = err ? say_error(options->ctx, err) : write_total(options, meter);
	ocp_meter_free(meter);
	return code;
}

const struct command command_read = {
	.name = "read",
	.help = &help_read,
	.takes_words = true,
	.run = run_read,
};

const struct command command_detach = {
	.name = "detach",
	.help = &help_detach,
	.takes_words = true,
	.run = run_detach,
};

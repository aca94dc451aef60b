// SPDX-License-Identifier: MIT
/*
 * What is asked for of arguments is checked for every site before anything is attached, so that a
 * filter that could never match is an error and not an empty result. Files that are loaded later
 * have no such moment: there a warning has to do.
 */
#include "measure/arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "measure/filter.h"
#include "measure/meter.h"

enum {
	PRINT_LIMIT = 1000,
	LIMITED_PRINT_BYTES = 4 << 20,	  /* 1361 records: more than a second's */
	UNLIMITED_PRINT_BYTES = 16 << 20, /* 270 000 a second, if taken every 20 ms */
	SPARE_ARGS = 256,		  /* for files that are loaded later */
	SPARE_HISTOGRAMS = 16,
	MAX_HISTOGRAMS = 1024, /* of 8 KB a CPU */
};

void arguments_init(struct arguments *arguments)
{
	*arguments = (struct arguments){
		.key_arg = -1,
		.hist_arg = -1,
		.print_limit = PRINT_LIMIT,
	};
}

void arguments_free(struct arguments *arguments)
{
	selection_free(&arguments->printed);
	args_table_free(&arguments->table);
}

bool arguments_are_read(const struct arguments *arguments)
{
	return arguments->has_filter || arguments->key_arg >= 0 || arguments->hist_arg >= 0 ||
	       !selection_is_empty(&arguments->printed);
}

/* ---- what is asked for ---------------------------------------------------------------------- */

int ocp_meter_filter(struct ocp_meter *meter, const char *expr)
{
	struct arguments *arguments = &meter->arguments;
	int err;

	if (arguments->has_filter)
		return ctx_error(meter->ctx, -EINVAL, "filter '%s': there is one already", expr);
	err = filter_parse(meter->ctx, expr, &arguments->filter, &arguments->filter_args);
	arguments->has_filter = !err;
	return err;
}

static int set_arg(struct ocp_meter *meter, const char *what, const char *text, int *arg)
{
	int number = filter_parse_arg(meter->ctx, text);

	if (number < 0)
		return number;
	if (*arg >= 0)
		return ctx_error(meter->ctx, -EINVAL, "%s '%s': there is one already", what, text);
	*arg = number;
	return 0;
}

int ocp_meter_set_key(struct ocp_meter *meter, const char *arg)
{
	return set_arg(meter, "key", arg, &meter->arguments.key_arg);
}

int ocp_meter_histogram(struct ocp_meter *meter, const char *arg)
{
	return set_arg(meter, "histogram", arg, &meter->arguments.hist_arg);
}

int ocp_meter_print(struct ocp_meter *meter, const char *name)
{
	return selection_add_name(meter->ctx, &meter->arguments.printed, name);
}

int ocp_meter_print_regexp(struct ocp_meter *meter, const char *re)
{
	return selection_add_regexp(meter->ctx, &meter->arguments.printed, re);
}

int ocp_meter_print_all(struct ocp_meter *meter)
{
	meter->arguments.printed.all = true;
	return 0;
}

void ocp_meter_set_print_limit(struct ocp_meter *meter, uint64_t hits)
{
	meter->arguments.print_limit = hits;
}

/* ---- what the sites have -------------------------------------------------------------------- */

static bool begins_a_pair(const struct ocp_meter *meter, const struct column *column)
{
	for (uint32_t i = 0; i < column->n_roles; i++)
		if (!meter->roles[column->first_role + i].is_stop)
			return true;
	return false;
}

static bool is_filtered(const struct ocp_meter *meter, const struct column *column)
{
	return meter->arguments.has_filter &&
	       (column->is_counted || column->is_printed || begins_a_pair(meter, column));
}

static bool has_key(const struct ocp_meter *meter, const struct column *column)
{
	return meter->arguments.key_arg >= 0 && column->n_roles;
}

static bool has_histogram(const struct ocp_meter *meter, const struct column *column)
{
	return meter->arguments.hist_arg >= 0 && column->is_counted;
}

struct checked_site {
	struct ocp_meter *meter;
	const struct measured_site *site;
	const struct site_args *args;
};

/* Can argument ARG, wanted for WHAT, be read? */
static int check_arg(const struct checked_site *checked, unsigned int arg, const char *what)
{
	const struct ocp_meter *meter = checked->meter;
	const struct site_args *args = checked->args;
	const char *probe = meter->table.columns[checked->site->column].name;
	const char *file = meter->table.files[checked->site->file].name;
	const unsigned int n = args->n + args->n_left_out;

	if (arg >= args->n)
		return ctx_error(meter->ctx, -EINVAL,
				 "probe '%s': no arg%u for the %s: it has %u argument%s in %s",
				 probe, arg, what, n, n == 1 ? "" : "s", file);
	if (args->args[arg].kind == ARG_UNSUPPORTED)
		return ctx_error(
			meter->ctx, -EINVAL,
			"probe '%s': arg%u, for the %s, is in a place that cannot be read, "
			"in %s ('%s')",
			probe, arg, what, file, checked->site->site->args);
	return 0;
}

static int check_site(const struct checked_site *checked, const struct column *column)
{
	const struct ocp_meter *meter = checked->meter;
	const struct arguments *arguments = &meter->arguments;
	int err = 0;

	for (unsigned int arg = 0; !err && arg < ARGS_MAX && is_filtered(meter, column); arg++)
		if (arguments->filter_args >> arg & 1)
			err = check_arg(checked, arg, "filter");
	if (!err && has_key(meter, column))
		err = check_arg(checked, (unsigned int)arguments->key_arg, "key");
	if (!err && has_histogram(meter, column))
		err = check_arg(checked, (unsigned int)arguments->hist_arg, "histogram");
	return err;
}

static int resolve_site(struct ocp_meter *meter, struct measured_site *site)
{
	const struct column *column = &meter->table.columns[site->column];
	struct args_table *table = &meter->arguments.table;
	struct checked_site checked = { .meter = meter, .site = site };
	int err;

	if (!is_filtered(meter, column) && !has_key(meter, column) &&
	    !has_histogram(meter, column) && !column->is_printed)
		return args_table_add(meter->ctx, table, "", &site->args);
	err = args_table_add(meter->ctx, table, site->site->args, &site->args);
	if (err == -EINVAL) {
		ctx_error_prefix(meter->ctx, "probe '%s': %s", column->name,
				 meter->table.files[site->file].name);
		return err;
	}
	if (err)
		return err;
	checked.args = &table->entries[site->args];
	return check_site(&checked, column);
}

static int number_histograms(struct ocp_meter *meter)
{
	for (size_t i = 0; i < meter->table.n_columns; i++) {
		struct column *column = &meter->table.columns[i];

		if (!has_histogram(meter, column) || column->has_histogram)
			continue;
		if (meter->arguments.n_histograms == MAX_HISTOGRAMS ||
		    (meter->engine && meter->arguments.n_histograms == meter->spec.n_histograms))
			return ctx_error(meter->ctx, -E2BIG,
					 "probe '%s': no room for the histograms of more than %zu "
					 "probes",
					 column->name, meter->arguments.n_histograms);
		column->has_histogram = true;
		column->histogram = (uint32_t)meter->arguments.n_histograms++;
	}
	return 0;
}

int arguments_resolve(struct ocp_meter *meter, size_t first, size_t n, bool is_strict)
{
	int err;

	if (!arguments_are_read(&meter->arguments))
		return 0;
	err = number_histograms(meter);
	if (err && is_strict)
		return err;
	if (err)
		ctx_log(meter->ctx, OCP_LOG_WARN, "%s", ocp_error(meter->ctx));
	for (size_t i = first; i < first + n; i++) {
		struct measured_site *site = &meter->table.sites[i];

		err = resolve_site(meter, site);
		if (err == -EINVAL && !is_strict) {
			ctx_log(meter->ctx, OCP_LOG_WARN, "%s", ocp_error(meter->ctx));
			err = args_table_add(meter->ctx, &meter->arguments.table, "", &site->args);
		}
		if (err)
			return err;
	}
	return 0;
}

/* ---- for the engine ------------------------------------------------------------------------- */

void arguments_fill_spec(const struct ocp_meter *meter, struct engine_spec *spec)
{
	const struct arguments *arguments = &meter->arguments;
	const size_t most = arguments->n_histograms + SPARE_HISTOGRAMS;

	spec->key_arg = arguments->key_arg < 0 ? ENGINE_BY_THREAD : arguments->key_arg;
	spec->filter = arguments->has_filter ? &arguments->filter : NULL;
	if (arguments->hist_arg >= 0) {
		spec->hist_arg = (unsigned int)arguments->hist_arg;
		spec->n_histograms = most < MAX_HISTOGRAMS ? most : MAX_HISTOGRAMS;
	}
	spec->prints = !selection_is_empty(&arguments->printed);
	spec->print_limit = arguments->print_limit;
	spec->print_bytes = arguments->print_bytes   ? arguments->print_bytes
			    : arguments->print_limit ? LIMITED_PRINT_BYTES
						     : UNLIMITED_PRINT_BYTES;
	spec->max_args = arguments->table.n + arguments->table.n / 4 + SPARE_ARGS;
}

void arguments_fill_site(const struct ocp_meter *meter, const struct measured_site *measured,
			 struct engine_site *site)
{
	const struct column *column = &meter->table.columns[measured->column];

	site->is_filtered = is_filtered(meter, column);
	site->is_printed = column->is_printed;
	site->has_histogram = column->has_histogram;
	site->histogram = column->histogram;
	site->args = measured->args;
}

// SPDX-License-Identifier: MIT
/*
 * What is asked for of arguments is checked for every site before anything is attached. A probe
 * whose arguments cannot be read as they should is left out as a whole, with a warning: its counts
 * would be wrong. If no probe is left, or if it is part of a pair that needs them, that is an
 * error.
 *
 * Files that are loaded later have no such moment: of them the sites are left out, with a warning.
 */
#include "measure/args/arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/wrapper_args.h"
#include "measure/args/filter.h"
#include "measure/meter.h"

enum {
	PRINT_LIMIT = 1000,
	LIMITED_PRINT_BYTES = 4 << 20,	  /* 1361 records: more than a second's */
	UNLIMITED_PRINT_BYTES = 16 << 20, /* 270 000 a second, if taken every 20 ms */
	SPARE_ARGS = 256,		  /* for files that are loaded later */
	SPARE_HISTOGRAMS = 16,
	MAX_HISTOGRAMS = 1024, /* of 8 KB a CPU */
	MAX_TOLD = 10,	       /* probes that are left out, each with its reason */
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
	selection_free(&arguments->not_measured);
	for (size_t i = 0; i < arguments->n_left_out; i++)
		free(arguments->left_out[i].why);
	free(arguments->left_out);
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
	return meter->arguments.hist_arg >= 0 && column->is_counted && !column->lacks_histogram;
}

struct checked_site {
	struct ocp_meter *meter;
	const struct measured_site *site;
	const struct site_args *args;
};

/* Why places of the site's arguments are not known; NULL: they are. */
static const char *args_fault(const struct measured_site *site)
{
	return site->site->corrected ? site->site->corrected->fault : NULL;
}

/* Once a probe, whatever the number of its sites. */
static void warn_of_unknown_places(struct ocp_meter *meter, const struct measured_site *site)
{
	struct column *column = &meter->table.columns[site->column];

	if (!column->is_printed || column->is_warned_of_args || !args_fault(site))
		return;
	column->is_warned_of_args = true;
	ctx_log(meter->ctx, OCP_LOG_WARN,
		"probe '%s': ? is an argument whose place is not known, in %s: %s", column->name,
		meter->table.files[site->file].name, args_fault(site));
}

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
	if (args->args[arg].kind == ARG_UNSUPPORTED && args_fault(checked->site))
		return ctx_error(
			meter->ctx, -EINVAL,
			"probe '%s': the place of arg%u, for the %s, is not known in %s: %s", probe,
			arg, what, file, args_fault(checked->site));
	if (args->args[arg].kind == ARG_UNSUPPORTED)
		return ctx_error(
			meter->ctx, -EINVAL,
			"probe '%s': arg%u, for the %s, is in a place that cannot be read, "
			"in %s ('%s')",
			probe, arg, what, file, checked->site->site->args);
	return 0;
}

static int check_filter(const struct checked_site *checked, const struct column *column)
{
	const struct arguments *arguments = &checked->meter->arguments;
	int err = 0;

	for (unsigned int arg = 0; !err && arg < ARGS_MAX && is_filtered(checked->meter, column);
	     arg++)
		if (arguments->filter_args >> arg & 1)
			err = check_arg(checked, arg, "filter");
	return err;
}

/* ---- probes that are left out --------------------------------------------------------------- */

/* Keep the sentence of the error, for arguments_tell_left_out(). */
static int note_left_out(struct ocp_meter *meter, const char *how)
{
	struct arguments *arguments = &meter->arguments;
	struct left_out *all =
		realloc(arguments->left_out, (arguments->n_left_out + 1) * sizeof(*all));

	if (!all)
		return ctx_no_memory(meter->ctx);
	arguments->left_out = all;
	all += arguments->n_left_out;
	*all = (struct left_out){ how, strdup(ocp_error(meter->ctx)) };
	if (!all->why)
		return ctx_no_memory(meter->ctx);
	arguments->n_left_out++;
	return 0;
}

/* One that ends a pair stays for that. */
static int leave_out(struct ocp_meter *meter, struct column *column)
{
	const bool is_in_pair = column->n_roles != 0;
	int err = note_left_out(meter, is_in_pair ? "not counted" : "not measured");

	column->is_counted = column->is_printed = false;
	column->is_left_out = !is_in_pair;
	if (err || is_in_pair)
		return err;
	return selection_add_name(meter->ctx, &meter->arguments.not_measured, column->name);
}

/* A site of a file that was loaded later. The probe has its number, and may have other sites. */
static int leave_site_out(struct ocp_meter *meter, struct column *column,
			  struct measured_site *site)
{
	if (!column->is_told)
		ctx_log(meter->ctx, OCP_LOG_WARN, "%s%s",
			column->n_roles ? "" : "not measured in that file: ",
			ocp_error(meter->ctx));
	column->is_told = true;
	site->is_left_out = column->n_roles == 0;
	return args_table_add(meter->ctx, &meter->arguments.table, "", &site->args);
}

static int leave_histogram_out(struct ocp_meter *meter, struct column *column, bool is_strict)
{
	column->lacks_histogram = true;
	if (is_strict)
		return note_left_out(meter, "counted without a histogram");
	ctx_log(meter->ctx, OCP_LOG_WARN, "counted without a histogram: %s", ocp_error(meter->ctx));
	return 0;
}

void arguments_tell_left_out(const struct ocp_meter *meter)
{
	const struct arguments *arguments = &meter->arguments;

	for (size_t i = 0; i < arguments->n_left_out; i++) {
		if (i == MAX_TOLD)
			ctx_log(meter->ctx, OCP_LOG_WARN,
				"%zu more probes are left out for such reasons",
				arguments->n_left_out - i);
		ctx_log(meter->ctx, i < MAX_TOLD ? OCP_LOG_WARN : OCP_LOG_INFO, "%s: %s",
			arguments->left_out[i].how, arguments->left_out[i].why);
	}
}

/* Is there nothing left of what was asked for? Then the first reason is the error. */
static int check_left(struct ocp_meter *meter, size_t n_before)
{
	const struct site_table *table = &meter->table;
	bool has_any = false, has_histograms = meter->arguments.hist_arg < 0;

	for (size_t i = 0; i < table->n_columns; i++) {
		has_any = true;
		has_histograms |= has_histogram(meter, &table->columns[i]);
	}
	if (!meter->arguments.n_left_out || (has_any && has_histograms))
		return 0;
	ctx_error(meter->ctx, -EINVAL, "%s", meter->arguments.left_out[0].why);
	if (n_before > 1)
		ctx_hint(meter->ctx, "none of the %zu probes has what is asked for", n_before);
	return -EINVAL;
}

/* ---- resolving ------------------------------------------------------------------------------ */

static int add_operands(struct ocp_meter *meter, struct measured_site *site)
{
	int err =
		args_table_add(meter->ctx, &meter->arguments.table, site->site->args, &site->args);

	if (err == -EINVAL)
		ctx_error_prefix(meter->ctx, "probe '%s': %s",
				 meter->table.columns[site->column].name,
				 meter->table.files[site->file].name);
	return err;
}

/* What a pair needs is not left out. */
static bool pair_needs_operands(const struct ocp_meter *meter, const struct column *column)
{
	return has_key(meter, column) ||
	       (meter->arguments.has_filter && begins_a_pair(meter, column));
}

/* What is wanted of SITE, but for its histogram. -EINVAL and *CAN_DO_WITHOUT: leave it out. */
static int check_site(const struct checked_site *checked, const struct column *column,
		      bool *can_do_without)
{
	const struct ocp_meter *meter = checked->meter;
	int err;

	*can_do_without = !begins_a_pair(meter, column);
	err = check_filter(checked, column);
	if (err || !has_key(meter, column))
		return err;
	*can_do_without = false;
	return check_arg(checked, (unsigned int)meter->arguments.key_arg, "key");
}

static int resolve_site(struct ocp_meter *meter, struct measured_site *site, bool is_strict)
{
	struct column *column = &meter->table.columns[site->column];
	struct checked_site checked = { .meter = meter, .site = site };
	const bool is_measured =
		is_filtered(meter, column) || has_key(meter, column) || column->is_printed;
	bool can_do_without = !pair_needs_operands(meter, column);
	int err;

	if (!is_measured && !has_histogram(meter, column))
		return args_table_add(meter->ctx, &meter->arguments.table, "", &site->args);
	err = add_operands(meter, site);
	if (!err) {
		checked.args = &meter->arguments.table.entries[site->args];
		err = check_site(&checked, column, &can_do_without);
	}
	if (!err)
		warn_of_unknown_places(meter, site);
	if (!err && has_histogram(meter, column) && !column->has_histogram) {
		err = check_arg(&checked, (unsigned int)meter->arguments.hist_arg, "histogram");
		return err == -EINVAL ? leave_histogram_out(meter, column, is_strict) : err;
	}
	if (err != -EINVAL || !can_do_without)
		return err;
	if (is_measured)
		return is_strict ? leave_out(meter, column) : leave_site_out(meter, column, site);
	err = leave_histogram_out(meter, column, is_strict);
	return err ? err : args_table_add(meter->ctx, &meter->arguments.table, "", &site->args);
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

int arguments_resolve(struct ocp_meter *meter)
{
	const size_t n_columns = meter->table.n_columns;
	int err = 0;

	if (!arguments_are_read(&meter->arguments))
		return 0;
	for (size_t i = 0; !err && i < meter->table.n_sites; i++)
		err = resolve_site(meter, &meter->table.sites[i], true);
	if (!err)
		err = site_table_drop_left_out(&meter->table);
	if (!err)
		err = check_left(meter, n_columns);
	return err ? err : number_histograms(meter);
}

int arguments_resolve_later(struct ocp_meter *meter, size_t first, size_t n)
{
	if (!arguments_are_read(&meter->arguments))
		return 0;
	for (size_t i = first; i < first + n; i++) {
		struct measured_site *site = &meter->table.sites[i];
		int err = resolve_site(meter, site, false);

		if (err == -EINVAL)
			err = leave_site_out(meter, &meter->table.columns[site->column], site);
		if (err)
			return err;
	}
	if (number_histograms(meter))
		ctx_log(meter->ctx, OCP_LOG_WARN, "%s", ocp_error(meter->ctx));
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

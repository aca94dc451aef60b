// SPDX-License-Identifier: MIT
/*
 * Checks for every site, before the attach, that the arguments that were asked for can be read. A
 * probe with a site that fails is left out as a whole, with a warning, because its counts would be
 * wrong. It is an error if no probe is left, or if the probe is part of a pair that needs the
 * argument.
 *
 * For files that are loaded later, the attach is over: single sites are left out, with a warning.
 */
#include "measure/args/arg_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/wrapper_args.h"
#include "measure/args/filter.h"
#include "base/ctx.h"

enum {
	PRINT_LIMIT = 1000,
	MAX_TOLD = 10, /* left-out probes that are reported with a warning */
};

void arg_requests_init(struct arg_requests *requests, struct ocp_ctx *ctx, struct site_table *sites)
{
	*requests = (struct arg_requests){
		.ctx = ctx,
		.sites = sites,
		.key_arg = -1,
		.hist_arg = -1,
		.print_limit = PRINT_LIMIT,
		.histogram_room = MAX_HISTOGRAMS,
	};
}

void arg_requests_free(struct arg_requests *requests)
{
	selection_free(&requests->printed);
	selection_free(&requests->not_measured);
	for (size_t i = 0; i < requests->n_left_out; i++)
		free(requests->left_out[i].why);
	free(requests->left_out);
	arg_table_free(&requests->table);
}

/* True if the request reads arguments. */
static bool are_read(const struct arg_requests *requests)
{
	return requests->has_filter || requests->key_arg >= 0 || requests->hist_arg >= 0 ||
	       !selection_is_empty(&requests->printed);
}

/* ---- what is asked for of a probe ------------------------------------------------------------- */

bool arg_requests_filter(const struct arg_requests *requests, const struct measured_probe *probe)
{
	return requests->has_filter &&
	       (probe->is_counted || probe->is_printed || probe->begins_pair);
}

static bool has_key(const struct arg_requests *requests, const struct measured_probe *probe)
{
	/* Calls of a function are matched by their frames. */
	return requests->key_arg >= 0 && probe->n_roles > probe->has_calls;
}

static bool has_histogram(const struct arg_requests *requests, const struct measured_probe *probe)
{
	return requests->hist_arg >= 0 && probe->is_counted && !probe->lacks_histogram;
}

struct checked_site {
	struct arg_requests *requests;
	const struct measured_site *site;
	const struct site_args *args;
};

/* Why locations of the site's arguments are unknown; NULL if they are known. */
static const char *args_fault(const struct measured_site *site)
{
	return site->site->corrected ? site->site->corrected->fault : NULL;
}

/* Warn once per probe. */
static void warn_of_unknown_places(struct arg_requests *requests, const struct measured_site *site)
{
	struct measured_probe *probe = &requests->sites->probes[site->probe_index];

	if (!probe->is_printed || probe->is_warned_of_args || !args_fault(site))
		return;
	probe->is_warned_of_args = true;
	ctx_log(requests->ctx, OCP_LOG_WARN,
		"probe '%s': ? is an argument whose place is not known, in %s: %s", probe->name,
		requests->sites->files[site->file].name, args_fault(site));
}

/* Check that argument ARG can be read. WHAT needs it, for the message. */
static int check_arg(const struct checked_site *checked, unsigned int arg, const char *what)
{
	const struct arg_requests *requests = checked->requests;
	const struct site_args *args = checked->args;
	const char *probe = requests->sites->probes[checked->site->probe_index].name;
	const char *file = requests->sites->files[checked->site->file].name;
	const unsigned int n = args->n + args->n_left_out;

	if (arg >= args->n)
		return ctx_error(requests->ctx, -EINVAL,
				 "probe '%s': no arg%u for the %s: it has %u argument%s in %s",
				 probe, arg, what, n, n == 1 ? "" : "s", file);
	if (args->args[arg].kind == ARG_UNSUPPORTED && args_fault(checked->site))
		return ctx_error(
			requests->ctx, -EINVAL,
			"probe '%s': the place of arg%u, for the %s, is not known in %s: %s", probe,
			arg, what, file, args_fault(checked->site));
	if (args->args[arg].kind == ARG_UNSUPPORTED)
		return ctx_error(
			requests->ctx, -EINVAL,
			"probe '%s': arg%u, for the %s, is in a place that cannot be read, "
			"in %s ('%s')",
			probe, arg, what, file, checked->site->site->args);
	return 0;
}

static int check_filter(const struct checked_site *checked, const struct measured_probe *probe)
{
	const struct arg_requests *requests = checked->requests;
	int err = 0;

	for (unsigned int arg = 0;
	     !err && arg < ARGS_MAX && arg_requests_filter(checked->requests, probe); arg++)
		if (requests->filter_args >> arg & 1)
			err = check_arg(checked, arg, "filter");
	return err;
}

/* ---- probes that are left out --------------------------------------------------------------- */

/* Save the error message for arg_requests_tell_left_out(). */
static int note_left_out(struct arg_requests *requests, const char *how)
{
	struct left_out *all =
		realloc(requests->left_out, (requests->n_left_out + 1) * sizeof(*all));

	if (!all)
		return ctx_no_memory(requests->ctx);
	requests->left_out = all;
	all += requests->n_left_out;
	*all = (struct left_out){ how, strdup(ocp_error(requests->ctx)) };
	if (!all->why)
		return ctx_no_memory(requests->ctx);
	requests->n_left_out++;
	return 0;
}

/* A probe that is part of a pair stays in the pair. */
static int leave_out(struct arg_requests *requests, struct measured_probe *probe)
{
	const bool is_in_pair = probe->n_roles != 0;
	int err = note_left_out(requests, is_in_pair ? "not counted" : "not measured");

	probe->is_counted = probe->is_printed = false;
	probe->is_left_out = !is_in_pair;
	if (err || is_in_pair)
		return err;
	return selection_add(requests->ctx, &requests->not_measured,
			     &(struct item){ item_kind_of_name(probe->name), probe->name });
}

/* Leave out a site of a file that was loaded later. Other sites of the probe may be measured. */
static int leave_site_out(struct arg_requests *requests, struct measured_probe *probe,
			  struct measured_site *site)
{
	if (!probe->is_told)
		ctx_log(requests->ctx, OCP_LOG_WARN, "%s%s",
			probe->n_roles ? "" : "not measured in that file: ",
			ocp_error(requests->ctx));
	probe->is_told = true;
	site->is_left_out = probe->n_roles == 0;
	return arg_table_add(requests->ctx, &requests->table, "", &site->args);
}

static int leave_histogram_out(struct arg_requests *requests, struct measured_probe *probe,
			       bool is_strict)
{
	probe->lacks_histogram = true;
	if (is_strict)
		return note_left_out(requests, "counted without a histogram");
	ctx_log(requests->ctx, OCP_LOG_WARN, "counted without a histogram: %s",
		ocp_error(requests->ctx));
	return 0;
}

void arg_requests_tell_left_out(const struct arg_requests *requests)
{

	for (size_t i = 0; i < requests->n_left_out; i++) {
		if (i == MAX_TOLD)
			ctx_log(requests->ctx, OCP_LOG_WARN,
				"%zu more probes are left out for such reasons",
				requests->n_left_out - i);
		ctx_log(requests->ctx, i < MAX_TOLD ? OCP_LOG_WARN : OCP_LOG_INFO, "%s: %s",
			requests->left_out[i].how, requests->left_out[i].why);
	}
}

/* If no probe is left, the first reason is the error. */
static int check_left(struct arg_requests *requests, size_t n_before)
{
	const struct site_table *table = requests->sites;
	bool has_any = false, has_histograms = requests->hist_arg < 0;

	for (size_t i = 0; i < table->n_probes; i++) {
		has_any = true;
		has_histograms |= has_histogram(requests, &table->probes[i]);
	}
	if (!requests->n_left_out || (has_any && has_histograms))
		return 0;
	ctx_error(requests->ctx, -EINVAL, "%s", requests->left_out[0].why);
	if (n_before > 1)
		ctx_hint(requests->ctx, "none of the %zu probes has what is asked for", n_before);
	return -EINVAL;
}

/* ---- resolving ------------------------------------------------------------------------------ */

static int add_args(struct arg_requests *requests, struct measured_site *site)
{
	int err = arg_table_add(requests->ctx, &requests->table, site->site->args, &site->args);

	if (err == -EINVAL)
		ctx_error_prefix(requests->ctx, "probe '%s': %s",
				 requests->sites->probes[site->probe_index].name,
				 requests->sites->files[site->file].name);
	return err;
}

/* A site of a pair that needs the argument is not left out: this is an error. */
static bool pair_needs_args(const struct arg_requests *requests, const struct measured_probe *probe)
{
	return has_key(requests, probe) || (requests->has_filter && probe->begins_pair);
}

/*
 * Check everything asked for at SITE except the histogram. If -EINVAL and *CAN_DO_WITHOUT: leave it
 * out.
 */
static int check_site(const struct checked_site *checked, const struct measured_probe *probe,
		      bool *can_do_without)
{
	const struct arg_requests *requests = checked->requests;
	int err;

	*can_do_without = !probe->begins_pair;
	err = check_filter(checked, probe);
	if (err || !has_key(requests, probe))
		return err;
	*can_do_without = false;
	return check_arg(checked, (unsigned int)requests->key_arg, "key");
}

static int resolve_site(struct arg_requests *requests, struct measured_site *site, bool is_strict)
{
	struct measured_probe *probe = &requests->sites->probes[site->probe_index];
	struct checked_site checked = { .requests = requests, .site = site };
	const bool is_measured = arg_requests_filter(requests, probe) || has_key(requests, probe) ||
				 probe->is_printed;
	bool can_do_without = !pair_needs_args(requests, probe);
	int err;

	if (!site->counts || (!is_measured && !has_histogram(requests, probe)))
		return arg_table_add(requests->ctx, &requests->table, "", &site->args);
	err = add_args(requests, site);
	if (!err) {
		checked.args = &requests->table.entries[site->args];
		err = check_site(&checked, probe, &can_do_without);
	}
	if (!err)
		warn_of_unknown_places(requests, site);
	if (!err && has_histogram(requests, probe) && !probe->has_histogram) {
		err = check_arg(&checked, (unsigned int)requests->hist_arg, "histogram");
		return err == -EINVAL ? leave_histogram_out(requests, probe, is_strict) : err;
	}
	if (err != -EINVAL || !can_do_without)
		return err;
	if (is_measured)
		return is_strict ? leave_out(requests, probe)
				 : leave_site_out(requests, probe, site);
	err = leave_histogram_out(requests, probe, is_strict);
	return err ? err : arg_table_add(requests->ctx, &requests->table, "", &site->args);
}

static int number_histograms(struct arg_requests *requests)
{
	for (size_t i = 0; i < requests->sites->n_probes; i++) {
		struct measured_probe *probe = &requests->sites->probes[i];

		if (!has_histogram(requests, probe) || probe->has_histogram)
			continue;
		if (requests->n_histograms == MAX_HISTOGRAMS ||
		    requests->n_histograms == requests->histogram_room)
			return ctx_error(requests->ctx, -E2BIG,
					 "probe '%s': no room for the histograms of more than %zu "
					 "probes",
					 probe->name, requests->n_histograms);
		probe->has_histogram = true;
		probe->histogram = (uint32_t)requests->n_histograms++;
	}
	return 0;
}

int arg_requests_resolve(struct arg_requests *requests)
{
	const size_t n_probes = requests->sites->n_probes;
	int err = 0;

	if (!are_read(requests))
		return 0;
	for (size_t i = 0; !err && i < requests->sites->n_sites; i++)
		err = resolve_site(requests, &requests->sites->sites[i], true);
	if (!err)
		err = site_table_drop_left_out(requests->sites);
	if (!err)
		err = check_left(requests, n_probes);
	return err ? err : number_histograms(requests);
}

int arg_requests_resolve_later(struct arg_requests *requests, size_t first, size_t n)
{
	if (!are_read(requests))
		return 0;
	for (size_t i = first; i < first + n; i++) {
		struct measured_site *site = &requests->sites->sites[i];
		int err = resolve_site(requests, site, false);

		if (err == -EINVAL)
			err = leave_site_out(requests, &requests->sites->probes[site->probe_index],
					     site);
		if (err)
			return err;
	}
	if (number_histograms(requests))
		ctx_log(requests->ctx, OCP_LOG_WARN, "%s", ocp_error(requests->ctx));
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * Checks for every site, before the attach, that the requested arguments can be read. If a site
 * lacks an argument that the filter needs, the whole probe of this site is left out, with a
 * warning, because its counts would be wrong. If a site lacks only the argument of the histogram or
 * of the groups, the probe is counted without histogram or groups. It is an error if no probe is
 * left, or if a pair needs the missing argument.
 *
 * A file that is loaded later is checked after the attach. In such a file, only the sites that fail
 * the check are left out, with a warning, not the other sites of their probes.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/by_name.h"
#include "base/ctx.h"
#include "base/suggest.h"
#include "measure/args/arg_requests.h"
#include "measure/args/filter.h"
#include "measure/args/operand.h"
#include "program/arg_names.h"
#include "program/arg_places.h"
#include "program/item.h"
#include "program/places.h"
#include "program/wrapper_args.h"

/* ---- the table of arguments ----------------------------------------------------------------- */

static void arg_table_free(struct arg_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free(table->texts[i]);
	free(table->texts);
	free(table->by_text);
	free(table->entries);
	*table = (struct arg_table){ 0 };
}

static const char *text_of_number(const void *table, uint32_t number)
{
	return ((const struct arg_table *)table)->texts[number];
}

static bool enlarge_array(void **array, size_t n, size_t size)
{
	void *grown = realloc(*array, n * size);

	if (grown)
		*array = grown;
	return grown != NULL;
}

static int enlarge_table(struct ocp_ctx *ctx, struct arg_table *table)
{
	const size_t room = table->room * 2 + 16;

	if (table->n < table->room)
		return 0;
	if (!enlarge_array((void **)&table->entries, room, sizeof(*table->entries)) ||
	    !enlarge_array((void **)&table->texts, room, sizeof(char *)) ||
	    !enlarge_array((void **)&table->by_text, room, sizeof(*table->by_text)))
		return ctx_no_memory(ctx);
	table->room = room;
	return 0;
}

/*
 * NAMES has the names of the arguments in ARGS. For each name asked->names[i] that occurs in NAMES,
 * copy the argument with this name to args->args[ARGS_MAX + i].
 */
static void add_named(struct site_args *args, const char *names, const struct asked_names *asked)
{
	for (unsigned int i = 0; i < asked->n; i++) {
		const int at = arg_names_find(names, asked->names[i]);

		if (at >= 0 && (unsigned int)at < args->n)
			args->args[ARGS_MAX + i] = args->args[at];
	}
}

/*
 * Add an entry with TEXT to the table, at index PLACE of by_text. The table then owns TEXT, unless
 * an error is returned.
 */
static int insert_text(struct ocp_ctx *ctx, struct arg_table *table, char *text,
		       const char *operands, size_t place)
{
	int err = enlarge_table(ctx, table);

	if (!err)
		err = operand_parse(ctx, operands, &table->entries[table->n]);
	if (err)
		return err;
	table->texts[table->n] = text;
	by_name_insert(table->by_text, table->n, place, (uint32_t)table->n);
	table->n++;
	return 0;
}

/*
 * Find or add the entry for OPERANDS with the argument names NAMES (program/arg_names.h), and set
 * *NUMBER to the number of the entry. An entry has the arguments by position, and behind them the
 * arguments that ASKED names. ASKED must be the same in all calls. Return -EINVAL with a message if
 * OPERANDS are malformed.
 */
static int arg_table_add(struct ocp_ctx *ctx, struct arg_table *table, const char *operands,
			 const char *names, const struct asked_names *asked, uint32_t *number)
{
	size_t place;
	char *text;
	bool found;
	int err = 0;

	if (asprintf(&text, "%s\n%s", operands, names) < 0)
		return ctx_no_memory(ctx);
	place = by_name_place(table->by_text, table->n, text_of_number, table, text, &found);
	if (!found)
		err = insert_text(ctx, table, text, operands, place);
	if (found || err)
		free(text);
	if (err)
		return err;
	*number = table->by_text[place];
	if (!found)
		add_named(&table->entries[*number], names, asked);
	return 0;
}

const char *arg_table_names(const struct arg_table *table, uint32_t number)
{
	return strchr(table->texts[number], '\n') + 1;
}

/* ---- a request ------------------------------------------------------------------------------ */

enum { MAX_TOLD = 10 }; /* how many left-out probes get a warning each */

void arg_requests_init(struct arg_requests *requests, struct ocp_ctx *ctx, struct site_table *sites,
		       const struct measure_request *request)
{
	*requests = (struct arg_requests){
		.ctx = ctx,
		.sites = sites,
		.request = request,
		.key_arg = -1,
		.hist_arg = -1,
		.by_arg = -1,
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

/* Return true if the request reads arguments. */
static bool are_read(const struct arg_requests *requests)
{
	return requests->has_filter || requests->has_pairs || requests->hist_arg >= 0 ||
	       requests->by_arg >= 0 || !selection_is_empty(&requests->printed) ||
	       requests->request->has_slower;
}

/* Return true if all arguments of the probe's hits are printed. */
static bool is_shown(const struct arg_requests *requests, const struct measured_probe *probe)
{
	return probe->is_printed || (requests->request->has_slower && probe->n_roles);
}

/* ---- what the request needs from a probe ----------------------------------------------------- */

bool arg_requests_filter(const struct arg_requests *requests, const struct measured_probe *probe)
{
	return requests->has_filter && !probe->is_unfiltered &&
	       (probe->is_counted || probe->is_printed || probe->begins_pair);
}

static bool has_key(const struct measured_probe *probe)
{
	return probe->key_args != 0;
}

static bool has_histogram(const struct arg_requests *requests, const struct measured_probe *probe)
{
	return requests->hist_arg >= 0 && probe->is_counted && !probe->lacks_histogram;
}

static bool has_groups(const struct arg_requests *requests, const struct measured_probe *probe)
{
	return requests->by_arg >= 0 && probe->is_counted && !probe->lacks_groups;
}

bool arg_requests_group_pairs(const struct arg_requests *requests,
			      const struct measured_probe *probe)
{
	return requests->by_arg >= 0 && probe->begins_pair;
}

/*
 * Return NULL if the locations of the site's arguments are known; otherwise the reason why they are
 * not.
 */
static const char *args_fault(const struct measured_site *site)
{
	return site->site->corrected ? site->site->corrected->fault : NULL;
}

/* Warn, once per probe, that a printed argument of SITE is at an unknown location. */
static void warn_of_unknown_places(struct arg_requests *requests, const struct measured_site *site)
{
	struct measured_probe *probe = &requests->sites->probes[site->probe_index];

	if (!is_shown(requests, probe) || probe->is_warned_of_args || !args_fault(site))
		return;
	probe->is_warned_of_args = true;
	ctx_log(requests->ctx, OCP_LOG_WARN,
		"probe '%s': ? is an argument whose place is not known, in %s: %s", probe->name,
		requests->sites->files[site->file].name, args_fault(site));
}

const char *arg_requests_name(const struct arg_requests *requests, unsigned int arg)
{
	return arg < ARGS_MAX ? NULL : requests->asked.names[arg - ARGS_MAX];
}

/*
 * Return the position of the requested argument ARG at a site whose arguments have the names NAMES.
 * Return -1 if ARG was requested by a name that is not in NAMES.
 */
static int position_of(const struct arg_requests *requests, unsigned int arg, const char *names)
{
	const char *name = arg_requests_name(requests, arg);

	return name ? arg_names_find(names, name) : (int)arg;
}

enum ocp_arg_type arg_requests_type(const struct arg_requests *requests, unsigned int arg,
				    const char *names)
{
	const int at = position_of(requests, arg, names);

	return at < 0 ? OCP_ARG_ANY : arg_names_get(names, (size_t)at).type;
}

unsigned int arg_requests_position(const struct arg_requests *requests,
				   const struct measured_probe *probe,
				   char name[OCP_ARG_NAME_BYTES])
{
	const char *names = arg_table_names(&requests->table, probe->histogram_args);
	const int at = position_of(requests, (unsigned int)requests->hist_arg, names);

	ocp_arg_name(names, at < 0 ? ARG_NAMES_MAX : (size_t)at, name);
	return at < 0 ? 0 : (unsigned int)at;
}

/* ---- arguments that cannot be read ----------------------------------------------------------- */

/*
 * Return the text "NAME (FILE:LINE)" for the probe at SITE, or "probe 'NAME'" if its source
 * position is unknown. The caller frees the text. NULL means that memory is short.
 */
static char *probe_text(const struct arg_requests *requests, const struct measured_site *site)
{
	const char *probe = requests->sites->probes[site->probe_index].name;
	const struct ocp_program *prog = requests->sites->files[site->file].prog;
	struct probe_place place = { .site = site->site };
	char *names = NULL, *text = NULL;
	int n;

	if (site->site->abi != SITE_ABI_CODE && prog && places_find(prog, &place, 1, &names))
		place.file = NULL;
	n = place.file ? asprintf(&text, "%s (%s:%d)", probe, place.file, place.line)
		       : asprintf(&text, "probe '%s'", probe);
	free(names);
	return n < 0 ? NULL : text;
}

/* Write an argument's position and name to TEXT: "arg0 (rid)". */
enum { ARG_TEXT_BYTES = OCP_ARG_NAME_BYTES + 16 };

static const char *arg_text(const struct measured_site *site, unsigned int position,
			    char text[ARG_TEXT_BYTES])
{
	char name[OCP_ARG_NAME_BYTES];

	ocp_arg_name(site->site->arg_names, position, name);
	snprintf(text, ARG_TEXT_BYTES, name[0] ? "arg%u (%s)" : "arg%u", position, name);
	return text;
}

/*
 * Return the operand of the argument at POSITION of SITE, and set *N to the length of the operand
 * in bytes.
 */
static const char *operand_at(const struct measured_site *site, unsigned int position, size_t *n)
{
	const char *at = site->site->args;

	for (;;) {
		at += strspn(at, " \t");
		*n = strcspn(at, " \t");
		if (!position--)
			return at;
		at += *n;
	}
}

/*
 * Set the error for an argument whose place is known but cannot be read, or that the compiler has
 * stored nowhere (8@$0). The message for 8@$0 suggests a remedy for probes of the ppx, since no
 * other writer of notes emits 8@$0.
 */
static int refuse_place(const struct arg_requests *requests, const struct measured_site *site,
			unsigned int position)
{
	char *probe = probe_text(requests, site), text[ARG_TEXT_BYTES];
	char name[OCP_ARG_NAME_BYTES];
	size_t n;
	const char *operand = operand_at(site, position, &n), *where;
	int err;

	if (!probe)
		return ctx_no_memory(requests->ctx);
	arg_text(site, position, text);
	ocp_arg_name(site->site->arg_names, position, name);
	if (n == strlen("8@$0") && memcmp(operand, "8@$0", n) == 0)
		where = "is not in a register or memory at the probe";
	else if (arg_is_in_float_register(operand, n))
		where = "is " ARG_FLOAT_REGISTER;
	else
		where = NULL;
	if (where)
		err = ctx_error(requests->ctx, -EINVAL,
				"%s: %s %s; let %s = Sys.opaque_identity (...) before the probe "
				"keeps it in memory or a register that can be read",
				probe, text, where, name[0] ? name : "x");
	else
		err = ctx_error(requests->ctx, -EINVAL,
				"%s: %s is in a place that cannot be read, in %s ('%.*s')", probe,
				text, requests->sites->files[site->file].name, (int)n, operand);
	free(probe);
	return err;
}

/* If NAMES has a name X that is similar to NAME, write "; did you mean 'X'?" to TEXT, else "". */
enum { MEANT_BYTES = OCP_ARG_NAME_BYTES + 32 };

static void suggest_name(const char *names, const char *name, char text[MEANT_BYTES])
{
	struct suggestion suggestion = suggestion_for(name);
	char all[ARG_NAMES_MAX][OCP_ARG_NAME_BYTES];
	struct arg_name one;

	for (size_t i = 0; i < ARG_NAMES_MAX && arg_names_next(&names, &one); i++) {
		snprintf(all[i], sizeof(all[i]), "%.*s", (int)one.n_bytes, one.name);
		if (all[i][0])
			suggestion_offer(&suggestion, all[i]);
	}
	text[0] = '\0';
	if (suggestion.best)
		snprintf(text, MEANT_BYTES, "; did you mean '%s'?", suggestion.best);
}

/*
 * Set the error that no argument of SITE has the name by which ARG was requested. WHAT names the
 * feature that needs ARG. Return -EINVAL or -ENOMEM.
 */
static int refuse_name(const struct arg_requests *requests, const struct measured_site *site,
		       unsigned int arg, const char *what)
{
	const char *probe = requests->sites->probes[site->probe_index].name;
	const char *file = requests->sites->files[site->file].name;
	const char *rest = site->site->arg_names, *name = arg_requests_name(requests, arg);
	char *all = NULL, meant[MEANT_BYTES];
	struct arg_name one;
	size_t n_bytes;
	FILE *out = open_memstream(&all, &n_bytes);
	int err;

	if (!out)
		return ctx_no_memory(requests->ctx);
	while (arg_names_next(&rest, &one))
		if (one.n_bytes)
			fprintf(out, "%s%.*s", ftell(out) ? ", " : "", (int)one.n_bytes, one.name);
	if (fclose(out) || !all) {
		free(all);
		return ctx_no_memory(requests->ctx);
	}
	suggest_name(site->site->arg_names, name, meant);
	if (*all)
		err = ctx_error(requests->ctx, -EINVAL,
				"probe '%s': no argument '%s' for the %s: it has %s in %s%s", probe,
				name, what, all, file, meant);
	else
		err = ctx_error(requests->ctx, -EINVAL,
				"probe '%s': no argument '%s' for the %s: its arguments have no "
				"names in %s, only positions (arg0, arg1, ...)",
				probe, name, what, file);
	free(all);
	return err;
}

static bool is_function(const char *probe)
{
	return strncmp(probe, ITEM_FUNCTION_PREFIX, strlen(ITEM_FUNCTION_PREFIX)) == 0 ||
	       strncmp(probe, ITEM_C_FUNCTION_PREFIX, strlen(ITEM_C_FUNCTION_PREFIX)) == 0;
}

/*
 * Check that argument ARG can be read at SITE. WHAT names the feature that needs ARG, for the error
 * message.
 */
static int check_arg(const struct arg_requests *requests, const struct measured_site *site,
		     unsigned int arg, const char *what)
{
	const struct site_args *args = &requests->table.entries[site->args];
	const char *probe = requests->sites->probes[site->probe_index].name;
	const char *file = requests->sites->files[site->file].name;
	const unsigned int n = args->n + args->n_left_out;
	const int at = position_of(requests, arg, site->site->arg_names);
	char text[ARG_TEXT_BYTES];

	if (at < 0)
		return refuse_name(requests, site, arg, what);
	if (n == 0 && is_function(probe))
		return ctx_error(
			requests->ctx, -EINVAL,
			"probe '%s': no arg%d for the %s: how many arguments it has is not "
			"known in %s",
			probe, at, what, file);
	if ((unsigned int)at >= args->n)
		return ctx_error(requests->ctx, -EINVAL,
				 "probe '%s': no arg%d for the %s: it has %u argument%s in %s",
				 probe, at, what, n, n == 1 ? "" : "s", file);
	if (args->args[at].kind == ARG_UNSUPPORTED && args_fault(site))
		return ctx_error(requests->ctx, -EINVAL,
				 "probe '%s': the place of %s, for the %s, is not known in %s: %s",
				 probe, arg_text(site, (unsigned int)at, text), what, file,
				 args_fault(site));
	if (args->args[at].kind == ARG_UNSUPPORTED)
		return refuse_place(requests, site, (unsigned int)at);
	return 0;
}

/*
 * Set an error if the filter names an argument and compares it with a literal that does not fit the
 * declared type of the argument. An argument that is given by position is not checked, since the
 * types at different sites may differ. At sites where the types do not fit, hits are counted as
 * mismatches.
 */
static int check_types(const struct arg_requests *requests, const struct measured_site *site)
{
	const struct filter *filter = &requests->filter;
	const char *names = site->site->arg_names;
	char text[ARG_TEXT_BYTES];

	for (__u32 i = 0; i < filter->n_ops; i++) {
		const struct filter_op *op = &filter->ops[i];
		const bool with_string = op->kind == FILTER_STRING;
		enum ocp_arg_type type;

		if ((!with_string && op->kind != FILTER_NUMBER) || op->arg < ARGS_MAX)
			continue;
		type = arg_requests_type(requests, op->arg, names);
		if (type != OCP_ARG_ANY && (type == OCP_ARG_STRING) != with_string)
			return ctx_error(
				requests->ctx, -EINVAL,
				"probe '%s': %s is of type %s in %s, and the filter compares "
				"it with a %s",
				requests->sites->probes[site->probe_index].name,
				arg_text(site, (unsigned int)position_of(requests, op->arg, names),
					 text),
				ocp_arg_type_name(type), requests->sites->files[site->file].name,
				with_string ? "string" : "number");
	}
	return 0;
}

static int check_filter(const struct arg_requests *requests, const struct measured_site *site,
			const struct measured_probe *probe)
{
	int err = 0;

	for (unsigned int arg = 0; !err && arg < ARGS_ALL && arg_requests_filter(requests, probe);
	     arg++)
		if (requests->filter_args >> arg & 1)
			err = check_arg(requests, site, arg, "filter");
	if (!err && arg_requests_filter(requests, probe))
		err = check_types(requests, site);
	return err;
}

/*
 * Check the argument of a histogram: it must be readable and, if it is given by name, not be
 * declared as a string. If it is given by position, its type is not checked: see check_types().
 */
static int check_histogram(const struct arg_requests *requests, const struct measured_site *site)
{
	const unsigned int arg = (unsigned int)requests->hist_arg;
	const char *names = site->site->arg_names;
	char text[ARG_TEXT_BYTES];
	int err = check_arg(requests, site, arg, "histogram");

	if (err || arg < ARGS_MAX || arg_requests_type(requests, arg, names) != OCP_ARG_STRING)
		return err;
	return ctx_error(requests->ctx, -EINVAL,
			 "probe '%s': %s is of type string in %s, and a histogram is of numbers",
			 requests->sites->probes[site->probe_index].name,
			 arg_text(site, (unsigned int)position_of(requests, arg, names), text),
			 requests->sites->files[site->file].name);
}

/* ---- probes that are left out --------------------------------------------------------------- */

/*
 * Store the current error message as the reason why a probe is left out, and HOW as the
 * consequence, for arg_requests_tell_left_out().
 */
static int note_left_out(struct arg_requests *requests, const char *how)
{
	struct left_out *new = array_add(requests->left_out, requests->n_left_out);

	if (!new)
		return ctx_no_memory(requests->ctx);
	*new = (struct left_out){ how, strdup(ocp_error(requests->ctx)) };
	if (new->why)
		return 0;
	requests->n_left_out--;
	return ctx_no_memory(requests->ctx);
}

/* Do not count or print PROBE. If PROBE belongs to no pair, mark it to be removed. */
static int drop_probe(struct arg_requests *requests, struct measured_probe *probe)
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

/* Give SITE the entry that has no arguments, because the arguments of SITE are not read. */
static int add_no_args(struct arg_requests *requests, struct measured_site *site)
{
	return arg_table_add(requests->ctx, &requests->table, "", "", &requests->asked,
			     &site->args);
}

/* Leave out SITE, which is in a file that was loaded later, but not the other sites of PROBE. */
static int leave_site_out(struct arg_requests *requests, struct measured_probe *probe,
			  struct measured_site *site)
{
	if (!probe->is_told)
		ctx_log(requests->ctx, OCP_LOG_WARN, "%s%s",
			probe->n_roles ? "" : "not measured in that file: ",
			ocp_error(requests->ctx));
	probe->is_told = true;
	site->is_left_out = probe->n_roles == 0;
	return add_no_args(requests, site);
}

/*
 * Report that a probe is counted only in part; HOW says in which way. If IS_STRICT, store the
 * report for arg_requests_tell_left_out(), otherwise log it at once.
 */
static int leave_part_out(struct arg_requests *requests, const char *how, bool is_strict)
{
	if (is_strict)
		return note_left_out(requests, how);
	ctx_log(requests->ctx, OCP_LOG_WARN, "%s: %s", how, ocp_error(requests->ctx));
	return 0;
}

static int leave_histogram_out(struct arg_requests *requests, struct measured_probe *probe,
			       bool is_strict)
{
	probe->lacks_histogram = true;
	return leave_part_out(requests, "counted without a histogram", is_strict);
}

/*
 * A site of PROBE lacks the argument that groups hits. If IS_STRICT, count PROBE without groups.
 * Otherwise the site is in a file that was loaded later: keep the groups of PROBE, and count the
 * hits of this site in the group without a value.
 */
static int leave_groups_out(struct arg_requests *requests, struct measured_probe *probe,
			    bool is_strict)
{
	probe->lacks_groups = is_strict;
	return leave_part_out(requests,
			      is_strict ? "counted without groups" : "counted without a value",
			      is_strict);
}

void arg_requests_tell_left_out(const struct arg_requests *requests)
{

	for (size_t i = 0; i < requests->n_left_out; i++) {
		if (i == MAX_TOLD)
			ctx_log(requests->ctx, OCP_LOG_WARN,
				"%zu more probes are left out for similar reasons",
				requests->n_left_out - i);
		ctx_log(requests->ctx, i < MAX_TOLD ? OCP_LOG_WARN : OCP_LOG_INFO, "%s: %s",
			requests->left_out[i].how, requests->left_out[i].why);
	}
}

/*
 * Return 0 if nothing was left out. Otherwise return -EINVAL if no probe remains, or if no
 * remaining probe has the requested histogram or groups. The error message is the reason why the
 * first of the probes was left out.
 */
static int check_left(struct arg_requests *requests, size_t n_before)
{
	const struct site_table *table = requests->sites;
	bool has_any = false, has_histograms = requests->hist_arg < 0;
	bool groups = requests->by_arg < 0;

	for (size_t i = 0; i < table->n_probes; i++) {
		has_any = true;
		has_histograms |= has_histogram(requests, &table->probes[i]);
		groups |= has_groups(requests, &table->probes[i]) ||
			  arg_requests_group_pairs(requests, &table->probes[i]);
	}
	if (!requests->n_left_out || (has_any && has_histograms && groups))
		return 0;
	ctx_error(requests->ctx, -EINVAL, "%s", requests->left_out[0].why);
	if (n_before > 1)
		ctx_hint(requests->ctx, "none of the %zu probes has suitable arguments", n_before);
	return -EINVAL;
}

/* ---- resolving ------------------------------------------------------------------------------ */

static int add_args(struct arg_requests *requests, struct measured_site *site)
{
	int err = arg_table_add(requests->ctx, &requests->table, site->site->args,
				site->site->arg_names, &requests->asked, &site->args);

	if (err == -EINVAL)
		ctx_error_prefix(requests->ctx, "probe '%s': %s",
				 requests->sites->probes[site->probe_index].name,
				 requests->sites->files[site->file].name);
	return err;
}

/*
 * Return true if a pair to which PROBE belongs needs an argument. Then it is an error if a site of
 * PROBE lacks this argument; such a site is not left out.
 */
static bool pair_needs_args(const struct arg_requests *requests, const struct measured_probe *probe)
{
	return has_key(probe) || arg_requests_group_pairs(requests, probe) ||
	       (arg_requests_filter(requests, probe) && probe->begins_pair);
}

/*
 * Check the arguments that the filter, the groups of pairs and the key of a pair need at SITE. If
 * an argument is missing or unsuitable, return -EINVAL, and set *CAN_DO_WITHOUT to whether SITE or
 * its probe may be left out: false if a pair needs the argument, since the pair would break.
 */
static int check_site(const struct arg_requests *requests, const struct measured_site *site,
		      const struct measured_probe *probe, bool *can_do_without)
{
	int err;

	*can_do_without = !probe->begins_pair;
	err = check_filter(requests, site, probe);
	if (!err && arg_requests_group_pairs(requests, probe)) {
		*can_do_without = false;
		err = check_arg(requests, site, (unsigned int)requests->by_arg, "groups");
	}
	if (err || !has_key(probe))
		return err;
	*can_do_without = false;
	for (unsigned int arg = 0; !err && arg < ARGS_ALL; arg++)
		if (probe->key_args >> arg & 1)
			err = check_arg(requests, site, arg, "key");
	return err;
}

/*
 * Set measured_probe.by_type of the probe of SITE to the type that the argument for grouping has at
 * SITE, or to OCP_ARG_ANY if the type differs between sites.
 */
static void note_by_type(const struct arg_requests *requests, const struct measured_site *site)
{
	struct measured_probe *probe = &requests->sites->probes[site->probe_index];
	const enum ocp_arg_type type =
		arg_requests_type(requests, (unsigned int)requests->by_arg, site->site->arg_names);

	probe->by_type = !probe->has_by_type || probe->by_type == type ? type : OCP_ARG_ANY;
	probe->has_by_type = true;
}

static int resolve_groups(struct arg_requests *requests, const struct measured_site *site,
			  bool is_strict)
{
	struct measured_probe *probe = &requests->sites->probes[site->probe_index];
	int err = check_arg(requests, site, (unsigned int)requests->by_arg, "groups");

	if (err == -EINVAL)
		err = leave_groups_out(requests, probe, is_strict);
	probe->is_grouped = probe->is_grouped ? !probe->lacks_groups : has_groups(requests, probe);
	return err;
}

static int resolve_site(struct arg_requests *requests, struct measured_site *site, bool is_strict)
{
	struct measured_probe *probe = &requests->sites->probes[site->probe_index];
	const bool is_measured = arg_requests_filter(requests, probe) || has_key(probe) ||
				 arg_requests_group_pairs(requests, probe) ||
				 is_shown(requests, probe);
	bool can_do_without = !pair_needs_args(requests, probe);
	int err;

	if (!site->counts || (!is_measured && !probe->compared_args &&
			      !has_histogram(requests, probe) && !has_groups(requests, probe)))
		return add_no_args(requests, site);
	err = add_args(requests, site);
	if (!err)
		err = check_site(requests, site, probe, &can_do_without);
	if (!err)
		warn_of_unknown_places(requests, site);
	if (!err && requests->by_arg >= 0)
		note_by_type(requests, site);
	if (!err && has_groups(requests, probe))
		err = resolve_groups(requests, site, is_strict);
	if (!err && has_histogram(requests, probe) && !probe->has_histogram) {
		err = check_histogram(requests, site);
		probe->histogram_args = site->args;
		return err == -EINVAL ? leave_histogram_out(requests, probe, is_strict) : err;
	}
	if (err != -EINVAL || !can_do_without)
		return err;
	if (is_measured)
		return is_strict ? drop_probe(requests, probe)
				 : leave_site_out(requests, probe, site);
	err = has_histogram(requests, probe) ? leave_histogram_out(requests, probe, is_strict) : 0;
	if (!err && has_groups(requests, probe))
		err = leave_groups_out(requests, probe, is_strict);
	return err ? err : add_no_args(requests, site);
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

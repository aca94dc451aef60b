// SPDX-License-Identifier: MIT
/*
 * Chooses the arguments that match the starts and stops of pairs. Matching by thread is correct
 * only if a thread handles one request at a time. Lwt, Async, Eio and Miou run many requests in one
 * thread: the stop of one request would then end the start of another request, and the counts would
 * not show this error.
 *
 * So, if the user names no key, a pair is matched by an argument that both probes have under the
 * same name, and that can be read at all sites of these probes. If several arguments qualify, the
 * order of preference is:
 *
 *	1. one whose name ends in "id"
 *	2. an int
 *	3. one of unknown type
 *	4. a string
 *
 * and among equals, the first in the order of the start's arguments. Floats, bools and chars do not
 * identify a request. If no argument qualifies, the pair is matched by thread.
 *
 * If the user asks for matching by thread (--key none, --depth), the argument that would otherwise
 * have become the key is only compared: if it differs between a start and the stop that ends it,
 * the stop belongs to another request, and the pair is counted as mismatched. The engine `inside`
 * matches by ints that are in a register or on the stack, and compares nothing. If it cannot read
 * the argument that would become the key, it matches by thread: another argument, such as a size,
 * would join starts and stops of different requests.
 *
 * Keys are chosen before the engine is opened. Files that are loaded later do not change the
 * choice.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/plural.h"
#include "code/schedulers.h"
#include "measure/args/filter.h"
#include "measure/args/operand.h"
#include "measure/engine/inside_filters.h"
#include "measure/meter.h"
#include "program/arg_names.h"

/* How well an argument identifies a request, best first. */
enum fitness { IS_ID, IS_INT, IS_OF_ANY_TYPE, IS_STRING, IS_UNFIT };

enum { REMEDY_BYTES = OCP_ARG_NAME_BYTES + 96 };

/* The sites of a pair: first the n_starts sites of its start, then the sites of its stop. */
struct pair_sites {
	const struct site **list;
	size_t n, n_starts;
	bool is_inside; /* ask what the engine `inside` can read */
};

/* ---- the argument that the probes of a pair have in common ----------------------------------- */

static size_t collect_probe_sites(const struct site_table *table, const char *probe,
				  const struct site **to)
{
	const ptrdiff_t index = site_table_find(table, probe);
	size_t n = 0;

	for (size_t i = 0; index >= 0 && i < table->n_sites; i++) {
		const struct measured_site *site = &table->sites[i];

		if (site->file != NO_FILE && site->site && site->counts &&
		    site->probe_index == (uint32_t)index)
			to[n++] = site->site;
	}
	return n;
}

static int list_sites(const struct ocp_meter *meter, const struct request_pair *pair,
		      struct pair_sites *sites)
{
	sites->list = calloc(2 * meter->table.n_sites + 1, sizeof(const struct site *));
	if (!sites->list)
		return ctx_no_memory(meter->ctx);
	sites->n_starts = collect_probe_sites(&meter->table, pair->start.text, sites->list);
	sites->n = sites->n_starts + collect_probe_sites(&meter->table, pair->stop.text,
							 sites->list + sites->n_starts);
	return 0;
}

static enum fitness fitness_of_type(enum ocp_arg_type type, bool is_inside)
{
	switch (type) {
	case OCP_ARG_INT:
		return IS_INT;
	case OCP_ARG_ANY:
		return IS_OF_ANY_TYPE;
	case OCP_ARG_STRING:
		return is_inside ? IS_UNFIT : IS_STRING;
	default:
		return IS_UNFIT;
	}
}

/* Return true if the argument at position AT of SITE can be read. */
static bool is_readable(struct ocp_ctx *ctx, const struct site *site, int at, bool is_inside)
{
	struct inside_place place;
	struct site_args args;

	if (operand_parse(ctx, site->args, &args) || (unsigned int)at >= args.n)
		return false;
	if (is_inside)
		return inside_place_of(&args.args[at], &place);
	return args.args[at].kind != ARG_UNSUPPORTED && args.args[at].kind != ARG_NONE &&
	       args.args[at].type != ARG_FLOAT;
}

/*
 * Return how well the argument NAME identifies a request. Return IS_UNFIT if at least one of SITES
 * has no such argument, or has it in a place that cannot be read.
 */
static enum fitness fitness_of(struct ocp_ctx *ctx, const struct pair_sites *sites,
			       const char *name)
{
	const size_t n = strlen(name);
	enum fitness worst = IS_ID;

	for (size_t i = 0; i < sites->n; i++) {
		const struct site *site = sites->list[i];
		const int at = arg_names_find(site->arg_names, name);
		enum fitness its;

		if (at < 0 || !is_readable(ctx, site, at, sites->is_inside))
			return IS_UNFIT;
		its = fitness_of_type(arg_names_get(site->arg_names, (size_t)at).type,
				      sites->is_inside);
		worst = its > worst ? its : worst;
	}
	return worst != IS_UNFIT && n >= 2 && strcasecmp(name + n - 2, "id") == 0 ? IS_ID : worst;
}

/*
 * Of the arguments that both probes have, set NAME to the name of the one that is most suitable as
 * a key, or to "" if none is suitable.
 */
static void choose_key_name(struct ocp_ctx *ctx, const struct pair_sites *sites,
			    char name[OCP_ARG_NAME_BYTES])
{
	enum fitness best = IS_UNFIT;
	const char *rest = sites->list[0]->arg_names;
	struct arg_name arg;

	name[0] = '\0';
	while (best != IS_ID && arg_names_next(&rest, &arg)) {
		char its_name[OCP_ARG_NAME_BYTES];
		enum fitness its;

		if (!arg.n_bytes || arg.n_bytes >= sizeof(its_name))
			continue;
		memcpy(its_name, arg.name, arg.n_bytes);
		its_name[arg.n_bytes] = '\0';
		its = fitness_of(ctx, sites, its_name);
		if (its >= best)
			continue;
		best = its;
		memcpy(name, its_name, sizeof(its_name));
	}
}

/*
 * Set NAME to the name of the argument that is most suitable for matching PAIR, or to "" if no
 * argument is suitable. Set *IS_READ to whether the engine can read this argument.
 */
static int find_key_name(const struct ocp_meter *meter, const struct request_pair *pair,
			 char name[OCP_ARG_NAME_BYTES], bool *is_read)
{
	struct pair_sites sites = { 0 };
	int err = list_sites(meter, pair, &sites);

	name[0] = '\0';
	if (!err && sites.n_starts && sites.n > sites.n_starts)
		choose_key_name(meter->ctx, &sites, name);
	sites.is_inside = meter_is_inside(meter);
	*is_read = name[0] && fitness_of(meter->ctx, &sites, name) != IS_UNFIT;
	free(sites.list);
	return err;
}

/*
 * Set *ARG to the number of the argument that is most suitable for matching PAIR, or to a negative
 * number if no argument is suitable, or if the engine cannot read it.
 */
static int find_argument(struct ocp_meter *meter, const struct request_pair *pair, int *arg)
{
	char name[OCP_ARG_NAME_BYTES];
	bool is_read;
	int err;

	*arg = -1;
	if (request_pair_is_calls(pair))
		return 0;
	err = find_key_name(meter, pair, name, &is_read);
	/* The result is negative if there is no room for one more name: then no key is chosen. */
	if (!err && is_read)
		*arg = filter_parse_arg(meter->ctx, name, &meter->arg_requests.asked);
	return err;
}

/* ---- a requested key, and the engine `inside` ------------------------------------------------ */

/*
 * Return -ENOTSUP if the engine `inside` cannot use argument KEY at SITE, a site of PROBE, as a
 * key.
 */
static int check_site_inside(const struct ocp_meter *meter, const char *probe,
			     const struct site *site, int key)
{
	const char *name = arg_requests_name(&meter->arg_requests, (unsigned int)key);
	const int at = name ? arg_names_find(site->arg_names, name) : key;
	struct inside_place place;
	enum ocp_arg_type type;
	struct site_args args;
	char number[16];

	/* If the site lacks the argument, arg_requests_resolve() will report this error. */
	if (at < 0 || operand_parse(meter->ctx, site->args, &args) || (unsigned int)at >= args.n)
		return 0;
	type = arg_names_get(site->arg_names, (size_t)at).type;
	snprintf(number, sizeof(number), "arg%d", at);
	if (type == OCP_ARG_STRING || type == OCP_ARG_FLOAT)
		return ctx_error(meter->ctx, -ENOTSUP,
				 "probe '%s': %s is a %s, and the engine `inside` matches by ints",
				 probe, name ? name : number, ocp_arg_type_name(type));
	if (!inside_place_of(&args.args[at], &place))
		return ctx_error(meter->ctx, -ENOTSUP,
				 "probe '%s': the engine `inside` cannot read %s, which is neither "
				 "in a register nor on the stack",
				 probe, name ? name : number);
	return 0;
}

static int check_key_inside(const struct ocp_meter *meter, const struct request_pair *pair)
{
	struct pair_sites sites = { 0 };
	int err = pair->key_arg < 0 ? 0 : list_sites(meter, pair, &sites);

	for (size_t i = 0; !err && i < sites.n; i++)
		err = check_site_inside(meter,
					i < sites.n_starts ? pair->start.text : pair->stop.text,
					sites.list[i], pair->key_arg);
	free(sites.list);
	return err;
}

/* ---- the keys of all pairs ------------------------------------------------------------------- */

static __u32 bit_of(int arg)
{
	return arg < 0 ? 0 : 1U << (unsigned int)arg;
}

/* Copy the key and the compared argument of each pair to the roles and probes of the pair. */
static void spread(struct ocp_meter *meter)
{
	meter->arg_requests.has_pairs = false;
	for (size_t i = 0; i < meter->n_ends; i++) {
		struct meter_end *end = &meter->ends[i];
		const ptrdiff_t probe = site_table_find(&meter->table, end->name);

		end->key_args = end->compared_args = 0;
		for (uint32_t j = 0; j < end->n_roles; j++) {
			struct engine_role *role = &meter->roles[end->first_role + j];
			const struct request_pair *pair = &meter->request.pairs[role->pair];

			if (role->is_frame)
				continue;
			role->is_keyed = pair->key_arg >= 0;
			role->is_compared = pair->compared_arg >= 0;
			role->key_arg = (unsigned int)(role->is_keyed	   ? pair->key_arg
						       : role->is_compared ? pair->compared_arg
									   : 0);
			end->key_args |= bit_of(pair->key_arg);
			end->compared_args |= bit_of(pair->compared_arg);
		}
		meter->arg_requests.has_pairs |= end->key_args || end->compared_args;
		if (probe < 0)
			continue;
		meter->table.probes[probe].key_args = end->key_args;
		meter->table.probes[probe].compared_args = end->compared_args;
	}
}

int meter_find_keys(struct ocp_meter *meter)
{
	const bool is_by_thread = meter->keys == KEYS_COMPARED;
	int err = 0;

	for (size_t i = 0; !err && i < meter->request.n_pairs; i++) {
		struct request_pair *pair = &meter->request.pairs[i];
		int arg = -1;

		pair->key_arg = request_pair_is_calls(pair) ? -1 : meter->arg_requests.key_arg;
		pair->compared_arg = -1;
		pair->is_chosen = false;
		if (meter->keys == KEYS_AS_ASKED && meter_is_inside(meter))
			err = check_key_inside(meter, pair);
		if (meter->keys == KEYS_AS_ASKED || (is_by_thread && meter_is_inside(meter)))
			continue;
		err = find_argument(meter, pair, &arg);
		pair->is_chosen = arg >= 0 && !is_by_thread;
		*(is_by_thread ? &pair->compared_arg : &pair->key_arg) = arg;
	}
	if (!err)
		spread(meter);
	return err;
}

bool meter_drop_keys(struct ocp_meter *meter)
{
	bool has_any = false;

	for (size_t i = 0; i < meter->request.n_pairs; i++) {
		struct request_pair *pair = &meter->request.pairs[i];

		has_any |= pair->is_chosen || pair->compared_arg >= 0;
		if (pair->is_chosen)
			pair->key_arg = -1;
		pair->is_chosen = false;
		pair->compared_arg = -1;
	}
	if (has_any)
		spread(meter);
	return has_any;
}

/* ---- texts for the user ---------------------------------------------------------------------- */

char *meter_keys_text(const struct ocp_meter *meter)
{
	size_t n = 0, n_bytes;
	char *text = NULL;
	FILE *out = open_memstream(&text, &n_bytes);

	if (!out)
		return NULL;
	for (size_t i = 0; i < meter->request.n_pairs; i++) {
		const struct request_pair *pair = &meter->request.pairs[i];

		if (!pair->is_chosen)
			continue;
		fprintf(out, "%s%s,%s by %s",
			n++ ? "; " : "matched by an argument of both probes: ", pair->start.text,
			pair->stop.text,
			arg_requests_name(&meter->arg_requests, (unsigned int)pair->key_arg));
	}
	fputs(" (--key none: by thread)", out);
	if (fclose(out) == 0 && n)
		return text;
	free(text);
	return NULL;
}

/*
 * Look in the files of METER for a library that runs many requests in one thread, such as Lwt.
 * Return the name of the library, and set *FILE to the name of the file. Return NULL if no file
 * contains such a library.
 */
static const char *find_scheduler(const struct ocp_meter *meter, const char **file)
{
	for (size_t i = 0; i < meter->table.n_files; i++) {
		const struct measured_file *its = &meter->table.files[i];
		const char *name = its->is_gone ? NULL : scheduler_of(meter->ctx, its->prog->elf);

		*file = its->name;
		if (name)
			return name;
	}
	return NULL;
}

/* Write to TEXT what the user can do about PAIR, which is matched by thread. Return TEXT. */
static const char *remedy_for(const struct ocp_meter *meter, const struct request_pair *pair,
			      char text[REMEDY_BYTES])
{
	if (pair->compared_arg >= 0)
		snprintf(text, REMEDY_BYTES, "leave out --depth: both probes have %s",
			 arg_requests_name(&meter->arg_requests, (unsigned int)pair->compared_arg));
	else
		snprintf(text, REMEDY_BYTES,
			 "give both probes an argument of the same name%s, or "
			 "use --key argN",
			 meter_is_inside(meter) ? ", an int" : "");
	return text;
}

/* Pairs that are matched by thread although the user has not asked for it. */
struct thread_pairs {
	const struct request_pair *first; /* NULL: there are none */
	size_t n;
};

static void add_pair_by_thread(struct thread_pairs *pairs, const struct request_pair *pair)
{
	if (!pairs->n++)
		pairs->first = pair;
}

/* Return true if the argument that would be the key of PAIR cannot be read by the engine. */
static bool has_unread_key(const struct ocp_meter *meter, const struct request_pair *pair,
			   char name[OCP_ARG_NAME_BYTES])
{
	bool is_read;

	return find_key_name(meter, pair, name, &is_read) == 0 && name[0] && !is_read;
}

/* Return the beginning of a text about PAIRS, which the caller frees. NULL: no memory. */
static char *by_thread_text(const struct thread_pairs *pairs)
{
	char *text, more[48] = "";

	if (pairs->n > 1)
		snprintf(more, sizeof(more), " and %zu more pair%s", pairs->n - 1,
			 plural(pairs->n - 1));
	if (asprintf(&text, "%s,%s%s: matched by thread", pairs->first->start.text,
		     pairs->first->stop.text, more) < 0)
		return NULL;
	return text;
}

char *meter_threads_text(const struct ocp_meter *meter)
{
	const bool is_silent = meter->keys == KEYS_AS_ASKED || meter->request.key;
	struct thread_pairs unread = { 0 }, others = { 0 };
	char name[OCP_ARG_NAME_BYTES] = "", its_name[OCP_ARG_NAME_BYTES], remedy[REMEDY_BYTES];
	const char *scheduler = NULL, *file = "";
	char *begin, *text;
	int n;

	for (size_t i = 0; !is_silent && i < meter->request.n_pairs; i++) {
		const struct request_pair *pair = &meter->request.pairs[i];

		if (request_pair_is_calls(pair) || pair->key_arg >= 0)
			continue;
		if (!has_unread_key(meter, pair, its_name)) {
			add_pair_by_thread(&others, pair);
			continue;
		}
		if (!unread.n)
			memcpy(name, its_name, sizeof(name));
		add_pair_by_thread(&unread, pair);
	}
	if (!unread.n && others.n)
		scheduler = find_scheduler(meter, &file);
	if (!unread.n && !scheduler)
		return NULL;
	begin = by_thread_text(unread.n ? &unread : &others);
	if (!begin)
		return NULL;
	if (unread.n)
		n = asprintf(&text,
			     "%s, since the engine `inside` cannot match by %s, which both probes "
			     "have: use --engine bpf",
			     begin, name);
	else
		n = asprintf(&text,
			     "%s, but %s contains %s, which runs many requests in one thread: %s",
			     begin, file, scheduler, remedy_for(meter, others.first, remedy));
	free(begin);
	return n < 0 ? NULL : text;
}

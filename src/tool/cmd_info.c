// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "ocaml_probes.h"
#include "process/process_kind.h"
#include "tool/json.h"
#include "tool/list_args.h"
#include "watch/verdicts.h"

/* ---- sites ---------------------------------------------------------------------------------- */

enum site_column {
	COLUMN_PROBE,
	COLUMN_STATE,
	COLUMN_NOP,
	COLUMN_OPCODE,
	COLUMN_HELD,
	COLUMN_ADDRESS,
	COLUMN_VA,
	COLUMN_SEMAPHORE,
	COLUMN_TRACERS,
	COLUMN_ABI,
	COLUMN_SYMBOL,
	COLUMN_SOURCE,
	COLUMN_ARGS,
	COLUMN_IMAGE,
	N_COLUMNS,
};

enum { MAX_NUMBER = 48 };

static const char *const headings[N_COLUMNS] = {
	"PROBE",   "STATE",   "NOP", "OPCODE", "HELD",	 "ADDRESS", "LINKED",
	"COUNTER", "TRACERS", "ABI", "SYMBOL", "SOURCE", "ARGS",    "FILE",
};

static const char *site_state_name(enum ocp_site_state state)
{
	switch (state) {
	case OCP_SITE_OFF:
		return "off";
	case OCP_SITE_ON:
		return "on";
	case OCP_SITE_ABSENT:
		return "absent";
	case OCP_SITE_DAMAGED:
		return "damaged";
	}
	return "?";
}

/* Return "FUNCTION+0xOFF", which the caller frees; NULL: unknown. */
static char *symbol_text(const struct ocp_site *site)
{
	char *text = NULL;

	if (site->symbol && asprintf(&text, "%s+0x%" PRIx64, site->symbol, site->symbol_off) < 0)
		text = NULL;
	return text;
}

/* Return "FILE:LINE", which the caller frees; NULL: unknown. */
static char *source_text(const struct ocp_site *site)
{
	char *text = NULL;

	if (site->source && asprintf(&text, "%s:%d", site->source, site->line) < 0)
		text = NULL;
	return text;
}

/* Return the text of column C: a constant, or a text in BUF. */
static const char *number_text(const struct ocp_site *site, enum site_column c,
			       char buf[MAX_NUMBER])
{
	bool present = site->has_code;

	if (c == COLUMN_SEMAPHORE)
		present = site->semaphore >= 0;
	if (c == COLUMN_TRACERS)
		present = site->tracer_semaphore >= 0;
	if (!present)
		return "-";
	switch (c) {
	case COLUMN_NOP:
		snprintf(buf, MAX_NUMBER, "%02x", site->code[0]);
		break;
	case COLUMN_OPCODE:
		snprintf(buf, MAX_NUMBER, "%02x", site->code[site->opcode_at]);
		break;
	case COLUMN_ADDRESS:
		snprintf(buf, MAX_NUMBER, "0x%" PRIx64, site->addr);
		break;
	case COLUMN_VA:
		snprintf(buf, MAX_NUMBER, "0x%" PRIx64, site->va);
		break;
	case COLUMN_SEMAPHORE:
		snprintf(buf, MAX_NUMBER, "%d@0x%" PRIx64, site->semaphore, site->semaphore_addr);
		break;
	default:
		snprintf(buf, MAX_NUMBER, "%d@0x%" PRIx64, site->tracer_semaphore,
			 site->tracer_semaphore_addr);
		break;
	}
	return buf;
}

/* Allocated texts of a site; NULL: unknown. */
struct texts {
	char *symbol, *source, *args;
};

static const char *or_dash(const char *text)
{
	return text && *text ? text : "-";
}

static const char *cell(const struct ocp_process *proc, const struct ocp_site *site,
			enum site_column c, const struct texts *texts, char buf[MAX_NUMBER])
{
	switch (c) {
	case COLUMN_PROBE:
		return or_dash(ocp_process_probe_name(proc, site->probe));
	case COLUMN_STATE:
		return site_state_name(site->state);
	case COLUMN_HELD:
		if (site->has_trampoline)
			return site->has_int3 ? "int3,inside" : "inside";
		return site->has_int3 ? "int3" : "-";
	case COLUMN_ABI:
		return site->abi;
	case COLUMN_SYMBOL:
		return or_dash(texts->symbol);
	case COLUMN_SOURCE:
		return or_dash(texts->source);
	case COLUMN_ARGS:
		return or_dash(texts->args);
	case COLUMN_IMAGE:
		return site->image;
	default:
		return number_text(site, c, buf);
	}
}

/*
 * Print the row of SITE, or the headings if SITE is NULL. Without PRINT, only widen WIDTHS for the
 * row.
 */
static void print_site(const struct ocp_process *proc, const struct ocp_site *site, int *widths,
		       bool print)
{
	char bufs[N_COLUMNS][MAX_NUMBER];
	const char *cells[N_COLUMNS];
	struct texts texts = { 0 };

	if (site)
		texts = (struct texts){ symbol_text(site), source_text(site),
					args_text(site->arg_names, site->args) };
	for (int c = 0; c < N_COLUMNS; c++)
		cells[c] =
			site ? cell(proc, site, (enum site_column)c, &texts, bufs[c]) : headings[c];
	print_columns(widths, cells, N_COLUMNS, print);
	if (print)
		putchar('\n');
	free(texts.symbol);
	free(texts.source);
	free(texts.args);
}

/* For each probe with arguments in unknown places, print the reason to stderr. */
static void sites_say_unknown_args(const struct ocp_process *proc, const struct ocp_sites *sites)
{
	size_t told = SIZE_MAX;

	for (size_t i = 0; i < ocp_sites_count(sites); i++) {
		const struct ocp_site *site = ocp_sites_get(sites, i);

		if (!site->args_fault || site->probe == told)
			continue;
		told = site->probe;
		say("probe '%s': ? is an argument whose place is not known: %s",
		    ocp_process_probe_name(proc, site->probe), site->args_fault);
	}
}

/* Print a header, then a line per site. Columns are aligned unless a value is very long. */
static void sites_print_table(const struct ocp_process *proc, const struct ocp_sites *sites)
{
	int widths[N_COLUMNS] = { 0 };

	print_site(proc, NULL, widths, false);
	for (size_t i = 0; i < ocp_sites_count(sites); i++)
		print_site(proc, ocp_sites_get(sites, i), widths, false);
	print_site(proc, NULL, widths, true);
	for (size_t i = 0; i < ocp_sites_count(sites); i++)
		print_site(proc, ocp_sites_get(sites, i), widths, true);
}

/* Add ADDRESS as a string, since many JSON readers keep only 53 bits of a number. */
static void add_address(struct json_object *to, const char *key, bool present, uint64_t address)
{
	char text[MAX_NUMBER];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	json_add_string(to, key, present ? text : NULL);
}

static void add_byte(struct json_object *to, const char *key, bool present, uint8_t byte)
{
	char text[MAX_NUMBER];

	snprintf(text, sizeof(text), "0x%02x", byte);
	json_add_string(to, key, present ? text : NULL);
}

static struct json_object *site_json(const struct ocp_process *proc, const struct ocp_site *site)
{
	struct json_object *to = json_object_new_object();
	char *symbol = symbol_text(site);

	json_add_string(to, "probe", ocp_process_probe_name(proc, site->probe));
	json_add_string(to, "state", site_state_name(site->state));
	json_add_string(to, "fault", site->fault);
	add_address(to, "address", site->has_code, site->addr);
	add_address(to, "linked", site->has_code, site->va);
	add_byte(to, "nop", site->has_code, site->has_code ? site->code[0] : 0);
	add_byte(to, "opcode", site->has_code, site->has_code ? site->code[site->opcode_at] : 0);
	json_add_string(to, "held", site->has_int3 ? "int3 by a uprobe or breakpoint" : NULL);
	json_add_bool(to, "inside", site->has_trampoline);
	add_address(to, "semaphore_address", site->semaphore >= 0, site->semaphore_addr);
	json_add_known_int(to, "semaphore", site->semaphore >= 0, site->semaphore);
	add_address(to, "tracer_semaphore_address", site->tracer_semaphore >= 0,
		    site->tracer_semaphore_addr);
	json_add_known_int(to, "tracer_semaphore", site->tracer_semaphore >= 0,
			   site->tracer_semaphore);
	json_add_string(to, "abi", site->abi);
	json_add_string(to, "symbol", symbol);
	json_add_string(to, "source", site->source);
	json_add_known_int(to, "line", site->source, site->line);
	json_add_known_int(to, "column", site->source, site->column);
	json_add_string(to, "args", site->args);
	json_object_object_add(to, "arguments", args_json(site->arg_names, site->args));
	json_add_string(to, "args_fault", site->args_fault);
	json_add_string(to, "file", site->image);
	free(symbol);
	return to;
}

/* Return an array with one object per site. */
static struct json_object *sites_json(const struct ocp_process *proc, const struct ocp_sites *sites)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < ocp_sites_count(sites); i++)
		json_object_array_add(array, site_json(proc, ocp_sites_get(sites, i)));
	return array;
}

/* ---- states and tracer ---------------------------------------------------------------------- */

/* The process that traces the examined process. */
struct tracer {
	pid_t pid; /* 0: there is no tracer */
	char name[64];
};

static const char *state_name(enum ocp_state state)
{
	switch (state) {
	case OCP_DISABLED:
		return "disabled";
	case OCP_ENABLED:
		return "enabled";
	case OCP_MIXED:
		return "mixed";
	}
	return "?";
}

static struct json_object *tracer_json(const struct tracer *tracer)
{
	struct json_object *to;

	if (!tracer->pid)
		return NULL;
	to = json_object_new_object();
	json_add_int(to, "pid", tracer->pid);
	json_add_string(to, "name", tracer->name);
	return to;
}

static void print_info_json(const struct ocp_process *proc, const enum ocp_state *states,
			    const struct tracer *tracer, const struct ocp_sites *sites)
{
	struct json_object *top = json_object_new_object(), *probes = json_object_new_array();

	json_add_int(top, "version", 1);
	json_add_int(top, "pid", ocp_process_pid(proc));
	json_add_string(top, "exe", ocp_process_exe(proc));
	for (size_t i = 0; i < ocp_process_probe_count(proc); i++) {
		struct json_object *probe = json_object_new_object();

		json_add_string(probe, "name", ocp_process_probe_name(proc, i));
		json_add_string(probe, "state", state_name(states[i]));
		json_add_uint(probe, "sites", ocp_process_probe_sites(proc, i));
		json_object_array_add(probes, probe);
	}
	json_object_object_add(top, "probes", probes);
	json_object_object_add(top, "tracer", tracer_json(tracer));
	if (sites)
		json_object_object_add(top, "sites", sites_json(proc, sites));
	json_print(top, JSON_C_TO_STRING_PLAIN);
}

static void print_lines(const struct ocp_process *proc, const enum ocp_state *states)
{
	for (size_t i = 0; i < ocp_process_probe_count(proc); i++)
		printf("%s %s\n", ocp_process_probe_name(proc, i), state_name(states[i]));
}

static void say_none(const struct options *options, const struct ocp_process *proc)
{
	if (options->quiet)
		return;
	say("pid %d (%s): has no OCaml probes", (int)ocp_process_pid(proc), ocp_process_exe(proc));
	say_functions_hint(options);
}

static int print_states(struct options *options, struct ocp_process *proc)
{
	enum ocp_state *states = calloc(ocp_process_probe_count(proc) + 1, sizeof(*states));
	struct ocp_sites *sites = NULL;
	struct tracer tracer;
	int err;

	if (!states) {
		say("out of memory");
		return EXIT_FAILED;
	}
	err = ocp_process_read_states(proc, options->update_flags, states);
	if (!err)
		err = ocp_process_read_tracer(proc, &tracer.pid, tracer.name, sizeof(tracer.name));
	if (!err && options->sites)
		err = ocp_sites_read(proc, OCP_SITES_SYMBOLS | OCP_SITES_SOURCE, &sites);
	if (!err && options->json)
		print_info_json(proc, states, &tracer, sites);
	else if (!err && sites)
		sites_print_table(proc, sites);
	else if (!err)
		print_lines(proc, states);
	if (!err && ocp_process_probe_count(proc) == 0)
		say_none(options, proc);
	if (!err && sites && !options->json && !options->quiet)
		sites_say_unknown_args(proc, sites);
	if (!err && sites && tracer.pid && !options->quiet)
		say("pid %d: is being traced by pid %d (%s)", (int)options->pid, (int)tracer.pid,
		    tracer.name);
	ocp_sites_free(sites);
	free(states);
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

static int run_info(struct options *options)
{
	struct verdicts *verdicts;
	struct ocp_process *proc;
	int err, none = 0, code;

	if (!options->pid)
		return say_usage(&command_info, "-pid is required");
	verdicts = verdicts_new(options->ctx);
	if (!verdicts)
		return say_error(options->ctx, -ENOMEM);
	/*
	 * Let the examiner read files of other users first: as root, this process must not spend
	 * time and memory on a file that any user may have made.
	 */
	verdicts_set_strangers(verdicts);
	progress_begin(options, "reading");
	do
		err = ocp_process_open(options->ctx, options->pid, &proc);
	while (err == -EAGAIN && verdicts_await(verdicts, VERDICTS_WAIT_MS));
	if (!err && ocp_process_probe_count(proc) == 0)
		none = process_need_native(options->ctx, options->pid);
	progress_end();
	code = err || none ? say_error(options->ctx, err ? err : none)
			   : print_states(options, proc);
	if (!err)
		ocp_process_free(proc);
	verdicts_free(verdicts);
	return code;
}

const struct command command_info = {
	.name = "info",
	.help = &help_info,
	.takes_running = true,
	.run = run_info,
};

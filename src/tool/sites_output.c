// SPDX-License-Identifier: MIT
#include "tool/sites_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "tool/list_args.h"

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

/* Longer values push later columns to the right. */
enum { MAX_WIDTH = 48, MAX_NUMBER = 48 };

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
 * Print the row of SITE, or the headings if SITE is NULL. Without PRINT, only widen WIDTHS for it.
 */
static void row(const struct ocp_process *proc, const struct ocp_site *site, int *widths,
		bool print)
{
	struct texts texts = { 0 };

	if (site)
		texts = (struct texts){ symbol_text(site), source_text(site),
					args_text(site->arg_names, site->args) };

	for (int c = 0; c < N_COLUMNS; c++) {
		char buf[MAX_NUMBER];
		const char *text =
			site ? cell(proc, site, (enum site_column)c, &texts, buf) : headings[c];
		size_t bytes = strlen(text);

		if (!print) {
			if (bytes <= MAX_WIDTH && (int)bytes > widths[c])
				widths[c] = (int)bytes;
			continue;
		}
		print_text(text);
		if (c == N_COLUMNS - 1)
			putchar('\n');
		else
			printf("%*s", (bytes < (size_t)widths[c] ? widths[c] - (int)bytes : 0) + 2,
			       "");
	}
	free(texts.symbol);
	free(texts.source);
	free(texts.args);
}

void sites_say_unknown_args(const struct ocp_process *proc, const struct ocp_sites *sites)
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

void sites_print_table(const struct ocp_process *proc, const struct ocp_sites *sites)
{
	int widths[N_COLUMNS] = { 0 };

	row(proc, NULL, widths, false);
	for (size_t i = 0; i < ocp_sites_count(sites); i++)
		row(proc, ocp_sites_get(sites, i), widths, false);
	row(proc, NULL, widths, true);
	for (size_t i = 0; i < ocp_sites_count(sites); i++)
		row(proc, ocp_sites_get(sites, i), widths, true);
}

static void add_site_string(struct json_object *to, const char *key, const char *text)
{
	json_object_object_add(to, key, text ? json_object_new_string(text) : NULL);
}

/* Add ADDRESS as a string, since many JSON readers keep only 53 bits of a number. */
static void add_address(struct json_object *to, const char *key, bool present, uint64_t address)
{
	char text[MAX_NUMBER];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	add_site_string(to, key, present ? text : NULL);
}

static void add_byte(struct json_object *to, const char *key, bool present, uint8_t byte)
{
	char text[MAX_NUMBER];

	snprintf(text, sizeof(text), "0x%02x", byte);
	add_site_string(to, key, present ? text : NULL);
}

static struct json_object *site_json(const struct ocp_process *proc, const struct ocp_site *site)
{
	struct json_object *to = json_object_new_object();
	char *symbol = symbol_text(site);

	add_site_string(to, "probe", ocp_process_probe_name(proc, site->probe));
	add_site_string(to, "state", site_state_name(site->state));
	add_site_string(to, "fault", site->fault);
	add_address(to, "address", site->has_code, site->addr);
	add_address(to, "linked", site->has_code, site->va);
	add_byte(to, "nop", site->has_code, site->has_code ? site->code[0] : 0);
	add_byte(to, "opcode", site->has_code, site->has_code ? site->code[site->opcode_at] : 0);
	add_site_string(to, "held", site->has_int3 ? "int3 by a uprobe or breakpoint" : NULL);
	json_object_object_add(to, "inside", json_object_new_boolean(site->has_trampoline));
	add_address(to, "semaphore_address", site->semaphore >= 0, site->semaphore_addr);
	json_object_object_add(to, "semaphore",
			       site->semaphore >= 0 ? json_object_new_int(site->semaphore) : NULL);
	add_address(to, "tracer_semaphore_address", site->tracer_semaphore >= 0,
		    site->tracer_semaphore_addr);
	json_object_object_add(
		to, "tracer_semaphore",
		site->tracer_semaphore >= 0 ? json_object_new_int(site->tracer_semaphore) : NULL);
	add_site_string(to, "abi", site->abi);
	add_site_string(to, "symbol", symbol);
	add_site_string(to, "source", site->source);
	json_object_object_add(to, "line", site->source ? json_object_new_int(site->line) : NULL);
	json_object_object_add(to, "column",
			       site->source ? json_object_new_int(site->column) : NULL);
	add_site_string(to, "args", site->args);
	json_object_object_add(to, "arguments", args_json(site->arg_names, site->args));
	add_site_string(to, "args_fault", site->args_fault);
	add_site_string(to, "file", site->image);
	free(symbol);
	return to;
}

struct json_object *sites_json(const struct ocp_process *proc, const struct ocp_sites *sites)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < ocp_sites_count(sites); i++)
		json_object_array_add(array, site_json(proc, ocp_sites_get(sites, i)));
	return array;
}

// SPDX-License-Identifier: MIT
/* Print a report: as text, whose lines end with commands, and as JSON. */
#include "tool/overview.h"

#include <stdio.h>
#include <string.h>

#include "tool/json.h"
#include "tool/overview_lines.h"
#include "tool/profile_output.h"
#include "tool/writer.h"

enum { OVERVIEW_JSON_VERSION = 1, COLUMNS = 80 };

/* ---- text ----------------------------------------------------------------------------------- */

static void print_row(const struct overview_row *row, int width)
{
	if (row->number)
		printf("%*s  ", width, row->number);
	else
		printf("  ");
	print_text(row->text);
	putchar('\n');
}

/* Print LINE with its command at the right margin: on the next line if there is no room. */
static void print_line(const struct overview_line *line)
{
	const size_t label = line->label ? strlen(line->label) + 2 : 0;
	const size_t bytes = label + strlen(line->text);

	if (line->label) {
		print_text(line->label);
		printf(": ");
	}
	print_text(line->text);
	if (!line->command)
		putchar('\n');
	else if (bytes + 2 + strlen(line->command) <= COLUMNS)
		printf("%*s\n", (int)(COLUMNS - bytes), line->command);
	else
		printf("\n%*s\n", COLUMNS, line->command);
	for (size_t i = 0; i < line->n_rows; i++)
		print_row(&line->rows[i], line->number_width);
}

int overview_print_text(struct ocp_ctx *ctx, const struct overview *o)
{
	struct overview_lines lines;
	int err = overview_lines_make(ctx, o, &lines);

	for (size_t i = 0; !err && i < lines.n; i++)
		print_line(&lines.list[i]);
	overview_lines_free(&lines);
	return err;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* If WHY is set, add it to OBJECT and return true. */
static bool add_why(struct json_object *object, const struct overview_why *why)
{
	if (why->text[0])
		json_add_string(object, "why", why->text);
	return why->text[0] != '\0';
}

static struct json_object *json_of_own(const struct own_function *f, const char *unit)
{
	struct json_object *object = json_object_new_object();

	json_add_string(object, "function", f->frame->function);
	json_add_string(object, "item", f->frame->item);
	json_add_uint(object, "samples", f->samples);
	json_add_uint(object, unit, f->value);
	return object;
}

static struct json_object *json_of_profile(const struct overview_profile *of)
{
	struct json_object *object = json_object_new_object(), *list = json_object_new_array();
	const struct profile *profile = &of->profile;
	const char *unit = profile->kind == PROFILE_WORDS ? "words" : "ns";

	json_object_object_add(object, "functions", list);
	if (add_why(object, &of->why))
		return object;
	if (profile_is_sampled(profile->kind))
		json_add_uint(object, "hz", profile->hz);
	json_add_string(object, "engine", profile->by_ptrace ? "ptrace" : "bpf");
	json_add_uint(object, "duration_ns", profile->duration_ns);
	json_add_bool(object, "over_budget", of->is_over_budget);
	json_add_uint(object, "samples", profile->samples);
	json_add_uint(object, unit, profile->value);
	json_add_uint(object, "lost", profile->lost);
	json_add_uint(object, "truncated", profile->truncated);
	profile_json_waits(object, profile);
	json_add_uint(object, "other_samples", of->own.other_samples);
	json_add_uint(object, profile->kind == PROFILE_WORDS ? "other_words" : "other_ns",
		      of->own.other_value);
	for (size_t i = 0; i < of->own.n; i++)
		json_object_array_add(list, json_of_own(&of->own.list[i], unit));
	return object;
}

static struct json_object *json_of_gauges(const struct overview *o)
{
	const struct overview_gauges *g = &o->gauges;
	const struct gc_gauges *now = &g->now, *first = &g->first;
	const struct profile *cpu = &o->profiles[PROFILE_CPU].profile;
	struct json_object *object = json_object_new_object();

	if (!o->profiles[PROFILE_CPU].why.text[0] && profile_knows_collector(cpu)) {
		json_add_uint(object, "cpu_ns", cpu->collector.all);
		json_add_uint(object, "collector_ns", cpu->collector.collector);
		json_add_uint(object, "minor_ns", cpu->collector.minor);
		json_add_uint(object, "major_ns", cpu->collector.major);
	}
	if (add_why(object, &g->why))
		return object;
	json_add_double(object, "span_s", overview_seconds(g->span_ns));
	json_add_uint(object, "minor_collections",
		      now->minor_collections - first->minor_collections);
	json_add_uint(object, "major_collections",
		      now->major_collections - first->major_collections);
	if (now->lacks_ended_domains)
		return object;
	json_add_uint(object, "heap_words", now->words.heap);
	json_add_uint(object, "first_heap_words", first->words.heap);
	json_add_uint(object, "least_heap_words", g->least_heap);
	json_add_uint(object, "most_heap_words", g->most_heap);
	json_add_uint(object, "allocated_words", (uint64_t)overview_allocated_words(g));
	json_add_uint(object, "promoted_words",
		      (uint64_t)(now->words.promoted - first->words.promoted));
	return object;
}

static void add_sample(struct json_object *object, const struct ocp_sample *sample)
{
	struct json_object *hits = json_object_new_array(), *pairs = json_object_new_array();

	json_add_uint(object, "hits", ocp_sample_all_hits(sample));
	for (size_t i = 0; i < ocp_sample_probe_count(sample); i++) {
		struct json_object *row = json_object_new_object();

		json_add_string(row, "probe", ocp_sample_probe(sample, i)->probe);
		json_add_uint(row, "hits", ocp_sample_probe(sample, i)->hits);
		json_object_array_add(hits, row);
	}
	for (size_t i = 0; i < ocp_sample_pair_count(sample); i++)
		json_object_array_add(pairs, json_of_pair(ocp_sample_pair(sample, i)));
	json_object_object_add(object, "probes", hits);
	json_object_object_add(object, "pairs", pairs);
}

static struct json_object *json_of_probes(const struct overview_probes *probes)
{
	struct json_object *object = json_object_new_object();

	json_add_uint(object, "n", probes->n);
	if (add_why(object, &probes->why) || !probes->sample)
		return object;
	json_add_string(object, "engine", probes->engine);
	json_add_double(object, "span_s", overview_seconds(ocp_sample_time_ns(probes->sample)));
	json_add_bool(object, "over_budget", probes->is_over_budget);
	json_add_bool(object, "slowed", probes->is_slowed);
	if (probes->pairs_why.text[0])
		json_add_string(object, "pairs_why", probes->pairs_why.text);
	add_sample(object, probes->sample);
	return object;
}

void overview_print_json(const struct overview *o)
{
	struct json_object *top = json_object_new_object();
	const struct runtime *runtime = o->gauges.runtime;

	json_add_int(top, "version", OVERVIEW_JSON_VERSION);
	json_add_int(top, "pid", o->pid);
	json_add_string(top, "exe", o->exe);
	json_add_string(top, "ocaml", runtime ? runtime->version : NULL);
	json_add_uint(top, "threads", o->threads);
	json_add_known_int(top, "domains", runtime && runtime->has_domains,
			   (int64_t)o->gauges.now.n_domains);
	json_add_double(top, "span_s", overview_seconds(o->span_ns));
	if (o->cpu_ns >= 0) {
		json_add_double(top, "cpu_s", overview_seconds(o->cpu_ns));
		json_add_double(top, "cpu_cores", overview_cpu_cores(o));
	}
	json_add_double(top, "cost_s", o->cost_ns / 1e9);
	json_add_filled_string(top, "no_bpf", o->no_bpf.text);
	json_object_object_add(top, "collector", json_of_gauges(o));
	for (int kind = 0; kind < N_OVERVIEW_PROFILES; kind++)
		json_object_object_add(top, profile_kind_name((enum profile_kind)kind),
				       json_of_profile(&o->profiles[kind]));
	json_object_object_add(top, "probes", json_of_probes(&o->probes));
	json_print(top, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

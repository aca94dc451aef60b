// SPDX-License-Identifier: MIT
#include "tool/count_output.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_NAME_WIDTH = 16 };

int count_output_init(struct count_output *out, const struct ocp_counter *counter, bool json)
{
	*out = (struct count_output){
		.counter = counter,
		.n = ocp_counter_probe_count(counter),
		.name_width = MIN_NAME_WIDTH,
		.json = json,
	};
	out->last_hits = calloc(out->n + 1, sizeof(*out->last_hits));
	if (!out->last_hits)
		return -ENOMEM;
	for (size_t i = 0; i < out->n; i++) {
		int width = (int)strlen(ocp_counter_probe_name(counter, i));

		if (width > out->name_width)
			out->name_width = width;
	}
	return 0;
}

void count_output_free(struct count_output *out)
{
	free(out->last_hits);
	out->last_hits = NULL;
}

static double rate(uint64_t hits, int64_t ns)
{
	return ns > 0 ? (double)hits * 1e9 / (double)ns : 0;
}

static uint64_t sum(const struct count_output *out, const uint64_t *hits)
{
	uint64_t total = 0;

	for (size_t i = 0; i < out->n; i++)
		total += hits[i];
	return total;
}

void count_output_progress(struct count_output *out, int64_t at_ns, const uint64_t *hits)
{
	fprintf(stderr, "\r\033[K%.1f s: %" PRIu64 " hits", (double)at_ns / 1e9, sum(out, hits));
	fflush(stderr);
	out->line_open = true;
}

void count_output_end_progress(struct count_output *out)
{
	if (out->line_open)
		fputs("\r\033[K", stderr);
	out->line_open = false;
}

static void print_row(const struct count_output *out, const char *name, uint64_t hits, int64_t ns)
{
	printf("%-*s %14" PRIu64 " %14.1f\n", out->name_width, name, hits, rate(hits, ns));
}

static void print_table(const struct count_output *out, int64_t at_ns, int64_t span_ns,
			const uint64_t *hits, bool total)
{
	printf("%s%.3f s\n", total ? "total, " : "", (double)at_ns / 1e9);
	printf("%-*s %14s %14s\n", out->name_width, "probe", "hits", "hits/s");
	for (size_t i = 0; i < out->n; i++)
		print_row(out, ocp_counter_probe_name(out->counter, i), hits[i], span_ns);
	if (out->n > 1)
		print_row(out, "(all)", sum(out, hits), span_ns);
}

/* One object a line: {"version":1,"type":"interval"|"total",...}. */
static void print_json(const struct count_output *out, int64_t at_ns, int64_t span_ns,
		       const uint64_t *hits, bool total)
{
	struct json_object *top = json_object_new_object(), *probes = json_object_new_array();

	json_object_object_add(top, "version", json_object_new_int(1));
	json_object_object_add(top, "type", json_object_new_string(total ? "total" : "interval"));
	json_object_object_add(top, "elapsed_s", json_object_new_double((double)at_ns / 1e9));
	json_object_object_add(top, "span_s", json_object_new_double((double)span_ns / 1e9));
	for (size_t i = 0; i < out->n; i++) {
		struct json_object *probe = json_object_new_object();

		json_object_object_add(
			probe, "name",
			json_object_new_string(ocp_counter_probe_name(out->counter, i)));
		json_object_object_add(probe, "hits", json_object_new_uint64(hits[i]));
		json_object_object_add(probe, "hits_per_s",
				       json_object_new_double(rate(hits[i], span_ns)));
		json_object_array_add(probes, probe);
	}
	json_object_object_add(top, "probes", probes);
	puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
	json_object_put(top);
}

static void print(const struct count_output *out, int64_t at_ns, int64_t span_ns,
		  const uint64_t *hits, bool total)
{
	if (out->json)
		print_json(out, at_ns, span_ns, hits, total);
	else
		print_table(out, at_ns, span_ns, hits, total);
	fflush(stdout);
}

void count_output_interval(struct count_output *out, int64_t at_ns, const uint64_t *hits)
{
	for (size_t i = 0; i < out->n; i++)
		out->last_hits[i] = hits[i] - out->last_hits[i];
	print(out, at_ns, at_ns - out->last_ns, out->last_hits, false);
	if (!out->json)
		putchar('\n');
	memcpy(out->last_hits, hits, out->n * sizeof(*hits));
	out->last_ns = at_ns;
}

void count_output_total(struct count_output *out, int64_t at_ns, const uint64_t *hits)
{
	print(out, at_ns, at_ns, hits, true);
}

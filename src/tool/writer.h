/* SPDX-License-Identifier: MIT */
/*
 * Writers print samples to standard output in one of several formats. They do not know the meter;
 * the reader of the meter (measure_session.c) uses this interface and does not know the format.
 */
#ifndef TOOL_WRITER_H
#define TOOL_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"

/* A sample to print. */
struct report {
	const struct ocp_sample *sample; /* of the span */
	int64_t at_ns;			 /* end of the span, since the start */
	bool is_total;			 /* the span is the whole session */
	bool is_first;			 /* this is the first output */
	enum ocp_split split;
	const struct ocp_costs *costs;
	bool prints;	    /* hits are printed too */
	uint64_t n_printed; /* since the start */
	const void *data;   /* of the writer */
};

struct json_object;

struct writer {
	void (*write)(const struct report *report);
	/* IS_FIRST as in struct report. */
	void (*write_hit)(const struct ocp_hit *hit, bool is_first);
};

enum { JSON_VERSION = 4 };

extern const struct writer table_writer, json_writer, csv_writer;

/* The members of PAIR as a JSON object. */
struct json_object *json_of_pair(const struct ocp_pair *pair);

/* hit_json.c */
void write_hit_json(const struct ocp_hit *hit, bool is_first);

/* Write N bytes of UTF-8 as a JSON string. */
void write_json_text(const char *bytes, size_t n);

/* Write NS nanoseconds to TEXT with a unit, as in tables: "12.5us". Returns TEXT. */
enum { TIME_BYTES = 32 };
const char *print_time(char *text, double ns);

/* Draw a histogram of OCP_BUCKETS entries. */
void print_histogram_of_times(const uint64_t *buckets);

/* Events per second. */
double report_rate(const struct report *report, uint64_t events);
/* The CPU overhead as a share of one core, 0.1 for 10%. */
double report_cost(const struct report *report);

#endif

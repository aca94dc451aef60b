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

struct cpu_share;
struct items;
struct named_frames;
struct slow_pair;
struct stack_rows;
struct table_view;

/* A sample to print. */
struct report {
	const struct ocp_sample *sample; /* of the span */
	int64_t at_ns;			 /* end of the span, since the start */
	bool is_total;			 /* the span is the whole session */
	bool is_first;			 /* this is the first output */
	enum ocp_split split;
	const struct table_view *view;
	const struct items *counted; /* what the user asked for; NULL: unknown */
	int64_t wall_ns; /* at_ns by the clock of the day, since 1970; 0: not asked for */
	const struct ocp_costs *costs;
	/* What the hits of the span have cost, in the CPU time of the programs; NULL: not known. */
	const struct cpu_share *share;
	const char *engine;		 /* which has measured; NULL: not told */
	const char *engine_reason;	 /* why it was chosen; NULL: the user has chosen it */
	bool prints;			 /* hits are printed too */
	bool has_slow;			 /* so are slow pairs */
	uint64_t n_slow;		 /* those since the start */
	uint64_t n_printed;		 /* since the start */
	const struct stack_rows *stacks; /* NULL: none, or it is not the total */
	const void *data;		 /* of the writer */
};

struct json_object;

struct writer {
	void (*write)(const struct report *report);
	/* IS_FIRST and WALL_NS as in struct report. FRAMES is NULL unless stacks are walked. */
	void (*write_hit)(const struct ocp_hit *hit, const struct named_frames *frames,
			  int64_t wall_ns, bool is_first);
	/* NULL: the format has no slow pairs. WALL_NS is always known. */
	void (*write_slow)(const struct slow_pair *pair, int64_t wall_ns);
};

enum { JSON_VERSION = 4 };

extern const struct writer table_writer, json_writer, csv_writer;

/* A number, with the shortest text that reads back as REAL; {"float":"nan"}, "inf" or "-inf". */
struct json_object *json_of_float(double real);

/* The members of PAIR as a JSON object. */
struct json_object *json_of_pair(const struct ocp_pair *pair);

/* hit_json.c */
void write_hit_json(const struct ocp_hit *hit, const struct named_frames *frames, int64_t wall_ns,
		    bool is_first);

/* The members "args" and "named" of HIT. */
void write_args_json(const struct ocp_hit *hit);

/* slow_output.c */
void write_slow_text(const struct slow_pair *pair, int64_t wall_ns);
void write_slow_json(const struct slow_pair *pair, int64_t wall_ns);

/*
 * Write WALL_NS to TEXT: for people, the local time of the day "18:10:46.055632", with DIGITS (3 or 6)
 * of the second; for programs, "2026-11-23T18:10:46.055632Z". Both return TEXT.
 */
enum { WALL_BYTES = 40 };
const char *time_of_day_text(char text[WALL_BYTES], int64_t wall_ns, int digits);
const char *utc_text(char text[WALL_BYTES], int64_t wall_ns);

/* Write N bytes of UTF-8 as a JSON string. */
void write_json_text(const char *bytes, size_t n);

/*
 * The number of leading bytes, of N, that are UTF-8: all, or all but an incomplete sequence at the end
 * if IS_CUT. N + 1 if the text is not UTF-8.
 */
size_t utf8_bytes(const char *bytes, size_t n, bool is_cut);

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

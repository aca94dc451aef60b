/* SPDX-License-Identifier: MIT */
/*
 * Writers print samples to standard output in one of several formats. They do not know the meter:
 * measure_session.c reads the meter and, without knowing the format, passes the samples to a writer
 * through this interface.
 */
#ifndef TOOL_WRITER_H
#define TOOL_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"

struct cpu_share;
struct items;
struct named_frame;
struct named_frames;
struct slow_pair;
struct stack_rows;
struct table_view;

/* A sample to print. */
struct report {
	/* the numbers of the span of time that is reported: an interval, or the whole session */
	const struct ocp_sample *sample;
	int64_t at_ns; /* end of the span, since the start of the session */
	bool is_total; /* the span is the whole session */
	bool is_first; /* this is the first output */
	enum ocp_split split;
	const struct table_view *view;
	const struct items *counted; /* items that the user asked to count; NULL: unknown */
	int64_t wall_ns;	     /* at_ns as nanoseconds since 1970; 0: not requested */
	const struct ocp_costs *costs;
	/* The cost of the span's hits as a share of the programs' CPU time; NULL: unknown. */
	const struct cpu_share *share;
	const char *engine; /* the engine that measured; NULL: not reported */
	/* why this engine was chosen; NULL: the user chose it, or it is the default */
	const char *engine_reason;
	bool prints;			 /* single hits are printed, too (--print) */
	bool has_slow;			 /* slow pairs are printed, too */
	bool is_outermost;		 /* only outermost calls count */
	uint64_t n_slow;		 /* printed slow pairs since the start */
	uint64_t n_printed;		 /* printed hits since the start */
	const struct stack_rows *stacks; /* NULL: no stacks are walked, or this is not the total */
	const void *data;		 /* data of the writer */
};

struct json_object;

struct writer {
	void (*write)(const struct report *report);
	/* IS_FIRST and WALL_NS as in struct report. FRAMES is NULL unless stacks are walked. */
	void (*write_hit)(const struct ocp_hit *hit, const struct named_frames *frames,
			  int64_t wall_ns, bool is_first);
	/* NULL: the format cannot show slow pairs. WALL_NS is never 0. */
	void (*write_slow)(const struct slow_pair *pair, int64_t wall_ns);
};

enum { JSON_VERSION = 4 };

extern const struct writer table_writer, json_writer, csv_writer;

/* Return PAIR as a JSON object. */
struct json_object *json_of_pair(const struct ocp_pair *pair);

/* Return FRAME as a JSON object. */
struct json_object *json_of_frame(const struct named_frame *frame);

/*
 * Write WALL_NS to TEXT. time_of_day_text() writes the local time, "18:10:46.055632", with DIGITS
 * (3 or 6) after the second; utc_text() writes "2026-11-23T18:10:46.055632Z", for programs. Both
 * return TEXT.
 */
enum { WALL_BYTES = 40 };
const char *time_of_day_text(char text[WALL_BYTES], int64_t wall_ns, int digits);
const char *utc_text(char text[WALL_BYTES], int64_t wall_ns);

/* Write N bytes of UTF-8 as a JSON string. */
void write_json_text(const char *bytes, size_t n);

/* Write NS nanoseconds to TEXT with a unit, as in tables: "12.5us". Returns TEXT. */
enum { TIME_BYTES = 32 };
const char *print_time(char *text, double ns);

/* Draw a histogram of OCP_BUCKETS entries. */
void print_histogram_of_times(const uint64_t *buckets);

/* Return how many decimals of COST_NS, the cost of a hit, are printed: one if it is below 10 ns. */
static inline int decimals_of_cost(double cost_ns)
{
	return cost_ns > 0 && cost_ns < 10;
}

/* Return EVENTS per second. */
double report_rate(const struct report *report, uint64_t events);
/* Return the CPU overhead of the hits in REPORT as a share of one core, 0.1 for 10%. */
double report_cost(const struct report *report);

#endif

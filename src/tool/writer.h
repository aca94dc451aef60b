/* SPDX-License-Identifier: MIT */
/*
 * Writers: samples on standard output, in one of several forms. They know samples and no meter; who
 * reads the meter (measure_session.c) knows this interface and no form.
 */
#ifndef TOOL_WRITER_H
#define TOOL_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include "ocaml_probes.h"

/* One thing to be written. */
struct report {
	const struct ocp_sample *sample; /* of the span */
	int64_t at_ns;			 /* its end, since the start */
	bool is_total;			 /* the span is all of it */
	bool is_first;			 /* nothing has been written before */
	enum ocp_split split;
	const struct ocp_costs *costs;
	bool prints;	    /* hits are printed as well */
	uint64_t n_printed; /* since the start */
};

struct writer {
	void (*write)(const struct report *report);
	/* IS_FIRST as above. */
	void (*write_hit)(const struct ocp_hit *hit, bool is_first);
};

enum { JSON_VERSION = 4 };

extern const struct writer table_writer, json_writer, csv_writer;

/* hit_json.c */
void write_hit_json(const struct ocp_hit *hit, bool is_first);

/* Events a second. */
double report_rate(const struct report *report, uint64_t events);
/* The share of one core that measuring took, 0.1 for 10 %. */
double report_cost(const struct report *report);

#endif

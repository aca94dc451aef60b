/* SPDX-License-Identifier: MIT */
/* Output of `gc`: the figures of the collector as tables, or as JSON objects. */
#ifndef TOOL_GC_OUTPUT_H
#define TOOL_GC_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "ocaml_probes.h"
#include "process/gc_gauges.h"

struct gc_report {
	pid_t pid;
	const char *exe;
	const struct runtime *runtime;
	const struct gc_gauges *now;
	const struct gc_gauges *before; /* at the start of the span; the domains are not used */
	int64_t at_ns;			/* time of the report, since the start of the command */
	int64_t span_ns;
	const struct ocp_sample *pauses; /* pauses in the span; NULL: not measured */
	bool is_total;			 /* the span is the whole session; otherwise an interval */
	bool is_first;			 /* this is the first output */
};

void gc_write_table(const struct gc_report *report);

/* Print {"version":1,"type":"interval"|"total",...}, one object per line. */
void gc_write_json(const struct gc_report *report);

#endif

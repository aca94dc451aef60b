/* SPDX-License-Identifier: MIT */
/* How counts are shown: tables or JSON on stdout, progress on a terminal. */
#ifndef TOOL_COUNT_OUTPUT_H
#define TOOL_COUNT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"

struct count_output {
	const struct ocp_counter *counter;
	size_t n;
	int name_width;
	bool json;
	bool line_open;	     /* a progress line stands on the terminal */
	uint64_t *last_hits; /* at the last interval, of each probe */
	int64_t last_ns;
};

/* 0, or -ENOMEM. The counter must outlive the output. */
int count_output_init(struct count_output *out, const struct ocp_counter *counter, bool json);
void count_output_free(struct count_output *out);

/* HITS are totals of all probes AT_NS after the start. */
void count_output_progress(struct count_output *out, int64_t at_ns, const uint64_t *hits);
void count_output_end_progress(struct count_output *out);
/* What came since the last interval. */
void count_output_interval(struct count_output *out, int64_t at_ns, const uint64_t *hits);
void count_output_total(struct count_output *out, int64_t at_ns, const uint64_t *hits);

#endif

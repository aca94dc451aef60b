/* SPDX-License-Identifier: MIT */
/*
 * Write a trace in the format of Perfetto, which ui.perfetto.dev and trace_processor open:
 * perfetto.proto has the messages that are written.
 */
#ifndef RECORD_PERFETTO_WRITER_H
#define RECORD_PERFETTO_WRITER_H

#include <stdio.h>
#include "record/moments.h"
#include "record/trace.h"

struct perfetto_source {
	const struct trace *trace;
	int64_t since_ns; /* leave out events that ended before this time of CLOCK_MONOTONIC */
	const char *tool; /* the name and version of the tool */
	const char *why;  /* what the trace was written for; NULL: nothing to say */
	uint64_t n_lost;  /* events that the recorder did not get */
	/*
	 * names the stacks of waits and samples, after moments_read_stacks(); NULL: there are none
	 */
	struct moments *moments;
};

/* Write the struct perfetto_source DATA to TO. Returns 0, or -ENOMEM with a message in CTX. */
int perfetto_write(struct ocp_ctx *ctx, const void *data, FILE *to);

#endif

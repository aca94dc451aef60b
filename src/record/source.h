/* SPDX-License-Identifier: MIT */
/* What the writers of traces write: a trace, and what is known of it. */
#ifndef RECORD_SOURCE_H
#define RECORD_SOURCE_H

#include "record/moments.h"
#include "record/trace.h"

struct trace_source {
	const struct trace *trace;
	int64_t since_ns; /* leave out events that ended before this time of CLOCK_MONOTONIC */
	int64_t end_ns;	  /* when the recording ended, or this file was made; 0: not known */
	uint64_t n_open;  /* how many slices of the trace have no end */
	const char *tool; /* the name and version of the tool */
	const char *why;  /* what the trace was written for; NULL: nothing to say */
	const char *gaps; /* which events were not recorded for some time, and why; "": none */
	uint64_t n_lost;  /* events that the recorder did not get */
	/*
	 * names the stacks of waits and samples, after moments_read_stacks(); NULL: there are none
	 */
	struct moments *moments;
};

#endif

/* SPDX-License-Identifier: MIT */
/* Measuring from the command line: `attach --count`, `trace --time`, ... */
#ifndef TOOL_MEASURE_SESSION_H
#define TOOL_MEASURE_SESSION_H

#include "tool/session.h"
#include "cli/cli.h"

struct measure_session {
	struct options *options;
	struct ocp_meter *meter;
	const struct writer *writer;
	struct ocp_sample *last; /* at the last interval; NULL: there was none */
	struct ocp_costs costs;
	bool has_costs;
	bool has_written;
	uint64_t n_printed; /* hits */
	bool progress;	    /* a line on the terminal is kept up to date */
	bool line_open;	    /* and stands there now */
	bool is_stale;	    /* a file was overwritten */
	bool is_over_budget;
	int64_t start_ns;
	int err;
};

/*
 * The phases, each to be called once: open loads everything, attach begins to measure, wait stays
 * until SESSION ends or the time is over, finish detaches and writes the totals, close frees. Each
 * returns EXIT_DONE or another code after having said why; close is called in any case.
 */
int measure_open(struct measure_session *s, struct options *options, struct ocp_process **procs,
		 size_t n);
int measure_attach(struct measure_session *s);
int measure_wait(struct measure_session *s, struct session *session);
/* Instead of waiting: let it go on when we have ended. */
int measure_keep(struct measure_session *s);
void measure_close(struct measure_session *s);

#endif

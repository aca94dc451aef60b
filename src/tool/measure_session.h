/* SPDX-License-Identifier: MIT */
/* Measuring from the command line: `attach --count`, `trace --time`, ... */
#ifndef TOOL_MEASURE_SESSION_H
#define TOOL_MEASURE_SESSION_H

#include "tool/choose_engine.h"
#include "tool/cpu_shares.h"
#include "tool/session.h"
#include "tool/unread_args.h"
#include "cli/cli.h"

struct measure_session {
	struct options *options;
	struct ocp_meter *meter;
	const struct writer *writer;
	const void *writer_data;
	struct ocp_sample *last; /* at the last interval; NULL: none */
	struct ocp_costs costs;
	bool has_costs, lacks_costs; /* has_costs: they were asked for */
	struct chosen_engine engine;
	bool has_written;
	uint64_t n_printed; /* printed hits */
	uint64_t n_slow;    /* printed slow pairs */
	struct unread_args unread;
	bool progress;	/* show a progress line on the terminal */
	bool line_open; /* the progress line is on the screen */
	bool has_lines; /* what is measured are lines of a source */
	bool is_stale;	/* a file was overwritten */
	bool is_over_budget;
	/* Has a limit without --budget: see measure_limit.h. */
	bool has_limit;
	struct cpu_shares shares;
	int64_t start_ns;
	int err, print_err;
};

/*
 * The phases, each called once. open loads the meter, attach starts measuring, wait returns when
 * SESSION ends or the time is over, finish detaches and writes the totals, close frees. Each
 * returns EXIT_DONE, or another code after printing the error. Always call close.
 */
int measure_open(struct measure_session *s, struct options *options, struct ocp_process **procs,
		 size_t n);
/*
 * The meter that measures what OPTIONS ask for by BPF, opened; its messages go to CTX. Also after an error, the
 * caller frees it.
 */
int measure_open_meter(struct ocp_ctx *ctx, const struct options *options,
		       struct ocp_process **procs, size_t n, struct ocp_meter **meter);
int measure_attach(struct measure_session *s);
int measure_wait(struct measure_session *s, struct session *session);
/* Instead of waiting: keep the meter running after the tool exits. */
int measure_keep(struct measure_session *s);
void measure_close(struct measure_session *s);

#endif

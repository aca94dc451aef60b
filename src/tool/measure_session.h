/* SPDX-License-Identifier: MIT */
/* Measuring from the command line: `attach --count`, `trace --time`, ... */
#ifndef TOOL_MEASURE_SESSION_H
#define TOOL_MEASURE_SESSION_H

#include "cli/cli.h"
#include "tool/measure_limit.h"
#include "cli/session.h"

/* Whether the kernel or the process itself counts: --engine. */
struct chosen_engine {
	bool is_inside;
	/* why the engine was chosen; "": the user chose the engine, or it is the default */
	char reason[300];
};

struct unread_arg {
	char *probe, *why;
	size_t arg;
};

/* The arguments that --print shows as "?", and the reasons. They are reported once, at the end. */
struct unread_args {
	struct unread_arg *list; /* each argument is in the list once */
	size_t n;
};

struct measure_session {
	struct options *options;
	struct ocp_meter *meter;
	const struct writer *writer;
	const void *writer_data;
	/*
	 * Unless `take` is NULL, it is called with `taker` for each printed hit and each pair, and
	 * only the totals are written, as JSON if that is requested. `after_hits` is called each
	 * time that all hits up to then were passed to `take`.
	 */
	ocp_hit_fn take;
	enum ending (*after_hits)(void *taker);
	/* called before the meter is detached; returns 0 or a negative errno with a message */
	int (*before_detach)(void *taker);
	void *taker;
	struct ocp_sample *last; /* the sample at the end of the last interval; NULL: none so far */
	struct ocp_costs costs;
	/* has_costs: find_costs() was called; lacks_costs: find_costs() has failed */
	bool has_costs, lacks_costs;
	struct chosen_engine engine;
	bool has_written;
	uint64_t n_printed; /* number of printed hits */
	uint64_t n_slow;    /* number of printed slow pairs */
	struct unread_args unread;
	bool progress;	/* show a progress line on the terminal */
	bool line_open; /* the progress line is on the screen */
	bool has_lines; /* lines of a source are measured */
	bool is_stale;	/* a file was overwritten */
	bool is_over_budget;
	/* The default limit of the share of CPU time applies, see measure_limit.h. */
	bool has_limit;
	struct cpu_shares shares;
	int64_t start_ns;
	int err, print_err;
};

/*
 * Add the processes that run the file of --exe to the pids of OPTIONS. It is no error if something
 * is to be measured and no process runs the file yet. Returns EXIT_DONE, or another code after
 * printing the error.
 */
int measure_find_processes(struct options *options);

/*
 * Choose the engine for a program that the tool will start, unless the user has named one: `inside`
 * if BPF is not permitted and `inside` supports the request, otherwise BPF. How many hits there
 * will be is not known. Say why, as measure_open() does.
 */
void measure_choose_for_program(struct options *options);
/*
 * Check that the engine can measure the program that was started, options->pid. It waits at the end
 * of its dynamic linker, with the C library ready. A static program waits at its first instruction,
 * where nothing is known of its thread. Returns 0 or an error with a message.
 */
int measure_check_program(const struct options *options);

/*
 * The phases of a measurement; call each once. measure_open() loads the meter. measure_attach()
 * starts measuring. measure_wait() waits until SESSION ends or the time is over, then detaches and
 * writes the totals. Each of these three returns EXIT_DONE, or another code after printing the
 * error. measure_close() frees the memory: call it in all cases.
 */
int measure_open(struct measure_session *s, struct options *options, struct ocp_process **procs,
		 size_t n);
/*
 * Like measure_open(), but print no error. Returns 0, or a negative errno with the message in the
 * ctx of OPTIONS.
 */
int measure_prepare(struct measure_session *s, struct options *options, struct ocp_process **procs,
		    size_t n);
/*
 * Create and open the BPF meter that measures what OPTIONS request. Messages go to CTX. The caller
 * frees the meter, also after an error.
 */
int measure_open_meter(struct ocp_ctx *ctx, const struct options *options,
		       struct ocp_process **procs, size_t n, struct ocp_meter **meter);
int measure_attach(struct measure_session *s);
int measure_wait(struct measure_session *s, struct session *session);
/* Call this instead of measure_wait() to keep the meter running after the tool exits. */
int measure_keep(struct measure_session *s);
void measure_close(struct measure_session *s);

#endif

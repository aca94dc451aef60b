/* SPDX-License-Identifier: MIT */
/*
 * A watch: the probes of programs over time, for whoever shows them (a terminal, a scrape, a page).
 *
 *	specs -> targets -> sources (a meter each) -> samples -> totals, rates, the last minute
 *
 * A target is an executable by its path. Processes of it come and go, and the file may be replaced
 * by a newer one; a source measures one process, or every process of one file, as long as there is
 * one. A target's numbers are those of its sources added up, of the ended ones too: they never go
 * back, whatever happens to the processes.
 *
 * Where all programs are watched, a file that runs under several names (hard links, bind mounts) is
 * one target, that of the name which was found first (of the lowest pid, mostly), also after the
 * last process of that name: uprobes are on the file, and would be hit once for each. Files of one
 * name are one target with a source each, but for those of different containers: each container has
 * a target of its own. A file that several containers run (from a volume) is a target without a
 * container. Files on overlays are told apart even if they have a file below in common; see
 * measure/kernel_file.c.
 *
 * Everything is done in the calling thread, by these functions. What they hand out is valid until
 * the next of watch_set, watch_tick, watch_read and watch_switch_....
 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "measure/request.h"
#include "ocaml_probes.h"

enum {
	WATCH_COLUMNS = 60,   /* of the history, one a tick */
	WATCH_TICK_MS = 1000, /* how often watch_tick is meant to be called */
};

struct watch;

/* What is to be watched. */
struct watch_spec {
	const char *exe; /* every process that runs this file, now or later; or NULL and */
	pid_t pid;	 /* this one, and when it has ended another one of its executable; or 0: */
			 /* every program with probes that runs and may be measured */
	/*
	 * Of it: counted, pairs, depth, key, filter, and budget. To stay within that, the busiest
	 * counters (8 at most) are switched off, and if that is not enough measuring ends; it is
	 * the target's problem then.
	 */
	const struct measure_request *request;
};

enum watch_handler {
	WATCH_HANDLER_UNKNOWN, /* there is no process, or none that may be looked at */
	WATCH_HANDLER_OFF,
	WATCH_HANDLER_ON,
	WATCH_HANDLER_MIXED, /* on in some processes, or in some sites */
};

struct watch_probe {
	const char *name;
	uint64_t hits; /* never goes back */
	double rate;   /* hits a second in the last tick; NAN: not known yet */
	size_t n_sites;
	bool is_counted; /* its hits are being counted */
	bool is_in_pair; /* of one that is timed: its counter cannot be switched */
	enum watch_handler handler;
	size_t n_enabled;		    /* processes in which its handlers are on */
	size_t n_uses, n_uses_without_site; /* as in struct ocp_probe_hits */
};

struct watch_pair {
	const char *start, *stop;
	struct ocp_pair sum; /* all but `buckets` and the extremes never goes back, but `open` */
	double rate;	     /* pairs a second in the last tick; NAN: not known yet */
	uint64_t p50_ns, p99_ns; /* of the last minute; 0: there were none */
};

/* Hits that are told apart by process, if that was asked for. */
struct watch_row {
	const char *probe;
	pid_t pid; /* 0: all that have ended, some minutes after they did */
	uint64_t hits;
};

/* What was not measured; each a counter. */
struct watch_losses {
	uint64_t pair_map_full, pair_not_keyed, rows_full, children_full;
	uint64_t filter_mismatches; /* hits with an argument of another type than the filter's */
};

struct watch_target {
	const char *exe;
	/*
	 * The container that its processes are in, by its id and its pod's, as for
	 * ocp_process_container; NULL: none, or several.
	 */
	const char *container, *pod;
	const char
		*title; /* `exe`, and the container's id in brackets, short where that is enough */
	int64_t since_ns;    /* CLOCK_REALTIME: when its counters began */
	bool is_up;	     /* a process of it runs and is measured */
	const char *problem; /* why it is not measured, or not in full; NULL: no problem */
	const pid_t *pids;   /* that run it, ascending */
	size_t n_pids;
	bool knows_pids;	     /* false: some may not be looked at, as /proc has them */
	double cost_per_hit_ns;	     /* what a hit costs the process; 0: not known yet */
	double cpu_overhead_seconds; /* that all hits up to now have cost; never goes back */
	double cpu_overhead;	     /* of one core, that they cost in the last tick */
	double budget;		     /* the most that they may cost, likewise; 0: no limit */
	struct watch_losses losses;
	const char
		*filter_mismatch; /* the first of filter_mismatches in words; NULL: there is none */
	const struct watch_probe *probes; /* by name */
	size_t n_probes;
	const struct watch_pair *pairs; /* in the order in which they were asked for */
	size_t n_pairs;
	const struct watch_row *rows; /* by probe, then pid */
	size_t n_rows;
};

/* BY_PROCESS: hits are also told apart by process. NULL: memory is short (said in CTX). */
struct watch *watch_new(struct ocp_ctx *ctx, bool by_process);
/* Stops measuring. Handlers stay as they are. Takes NULL. */
void watch_free(struct watch *watch);

/*
 * Watch what N SPECS say, and nothing else; they are copied. What was watched in the same way
 * before goes on without a break; what was watched in another way is not counted for the some 50 ms
 * between, and if it cannot be attached again that is its target's problem. On an error (of
 * ocp_process_open, ocp_meter_open, and ocp_meter_attach of what is new) everything is as before;
 * only -ENOMEM may leave a part of it done. Two specs of the same process are -EINVAL.
 */
int watch_set(struct watch *watch, const struct watch_spec *specs, size_t n);

/*
 * To be called each WATCH_TICK_MS: find processes that came, went, or loaded plugins, read the
 * handlers' states and the meters, and add a column to the history. What cannot be measured now is
 * a target's problem, is logged once, and is tried again; only shortage of memory is returned.
 */
int watch_tick(struct watch *watch);
/* Read the meters alone, for numbers of this moment. Returns as above. */
int watch_read(struct watch *watch);

size_t watch_target_count(const struct watch *watch);
const struct watch_target *watch_target(const struct watch *watch, size_t target);
/* The number of the target called TITLE, or -1; of the probe NAME in it, or -1. */
ptrdiff_t watch_find_target(const struct watch *watch, const char *title);
ptrdiff_t watch_find_probe(const struct watch_target *target, const char *name);

/* ---- the last minute ------------------------------------------------------------------------ */

/* How many columns there are, and when the newest ended (CLOCK_REALTIME). */
size_t watch_column_count(const struct watch *watch);
int64_t watch_column_time_ns(const struct watch *watch);
/*
 * Hits a second in column AGE, 0 the newest, less than WATCH_COLUMNS; NAN where nothing is known.
 */
double watch_probe_rate(const struct watch *watch, size_t target, size_t probe, size_t age);
/*
 * How many pairs took how long in column AGE: OCP_BUCKETS of them, as ocp_bucket_start says. NULL
 * where nothing is known.
 */
const uint32_t *watch_pair_column(const struct watch *watch, size_t target, size_t pair,
				  size_t age);

/* ---- switching ------------------------------------------------------------------------------ */

/*
 * Switch PROBE's handlers in all processes of TARGET: those in which they are off (ON) or on, as
 * `ocaml-probes attach -enable` and -disable do. *N says in how many that was done. -ESRCH if there
 * is no process. The first error is returned, after all have been tried.
 */
int watch_switch_handler(struct watch *watch, size_t target, const char *probe, bool on, size_t *n);
/* Count PROBE's hits, or not any more; see ocp_meter_switch. */
int watch_switch_counter(struct watch *watch, size_t target, const char *probe, bool on);

#endif

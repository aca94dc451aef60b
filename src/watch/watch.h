/* SPDX-License-Identifier: MIT */
/*
 * A watch: the probes of programs over time, for a terminal, a scrape or a page.
 *
 *	specs -> targets -> sources (a meter each) -> samples -> totals, rates, the history
 *
 * A target is an executable, identified by its path. Its processes come and go, and the file may
 * be replaced by a newer one. A source measures one process, or every process of one file, as long
 * as there is one. The numbers of a target are the sums over all its sources, including ended
 * ones. So they never decrease, whatever happens to the processes.
 *
 * When all programs are watched, a file with several names (hard links, bind mounts) is one
 * target. It has the name that was found first, usually that of the lowest pid, and keeps it after
 * the last process of that name: uprobes belong to the file, and a second target would count each
 * hit twice. Files with one name are one target, with a source for each file. Different containers
 * have different targets. A file that several containers run (from a volume) is a target without a
 * container. Files on overlays are separate, even if they share a lower file; see
 * measure/kernel_file.c.
 *
 * All work is done in the calling thread. Pointers that these functions return are valid until the
 * next call of watch_set, watch_tick, watch_read or watch_switch_....
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
	WATCH_COLUMNS = 60,	  /* of each span of the history */
	WATCH_TICK_MS = 1000,	  /* the interval for calls of watch_tick */
	WATCH_QUARTER_TICKS = 15, /* in a column of WATCH_QUARTER_HOUR */
};

/* The spans of the history. */
enum watch_span {
	WATCH_MINUTE,	    /* a column for each tick */
	WATCH_QUARTER_HOUR, /* a column for WATCH_QUARTER_TICKS ticks, once they are complete */
};

struct watch;

/* One thing to watch. */
struct watch_spec {
	const char *exe;     /* every process of this file, now or later; NULL: see pid */
	bool may_be_missing; /* if EXE does not exist yet, its target has that problem */
	pid_t pid;	     /* this process and, after it exits, another one of its executable; */
			     /* 0 without exe: every running program with probes */
	/*
	 * What to measure. To keep within its budget, the busiest counters (at most 8 per tick)
	 * are switched off. If that is not enough, measuring ends, and the target has a problem.
	 */
	const struct measure_request *request;
	/*
	 * The engine. ENGINE_INSIDE: each process counts inside, if it belongs to our user; needs
	 * EXE or PID. ENGINE_AUTO: BPF, if BPF is permitted or the request needs it; counting moves
	 * inside if it exceeds the budget. ENGINE_DEFAULT: the same choice, but counting never
	 * moves because of the budget.
	 */
	enum engine_choice engine;
};

/* The engines that measure the processes of a target: a set of bits. */
enum watch_engine {
	WATCH_ENGINE_UNKNOWN = 0,
	WATCH_ENGINE_BPF = 1,
	WATCH_ENGINE_INSIDE = 2,
	WATCH_ENGINE_BOTH = 3,
};

/* Return "bpf", "inside", or "both"; NULL if the engine is unknown. */
static inline const char *watch_engine_name(enum watch_engine engine)
{
	static const char *const names[] = { NULL, "bpf", "inside", "both" };

	return names[engine];
}

enum watch_handler {
	WATCH_HANDLER_UNKNOWN, /* no process, or no readable one */
	WATCH_HANDLER_OFF,
	WATCH_HANDLER_ON,
	WATCH_HANDLER_MIXED, /* on in some processes or at some sites */
	WATCH_HANDLER_NONE,  /* not a probe, but code that has no handlers */
};

struct watch_probe {
	const char *name;
	uint64_t hits; /* never decreases */
	double rate;   /* hits per second in the last tick; NAN: unknown */
	size_t n_sites;
	bool is_counted; /* its hits are counted */
	bool is_in_pair; /* in a timed pair: its counter cannot be switched */
	enum watch_handler handler;
	size_t n_enabled;		    /* processes in which its handlers are on */
	size_t n_uses, n_uses_without_site; /* as in struct ocp_probe_hits */
};

struct watch_pair {
	const char *start, *stop;
	struct ocp_pair sum; /* without `buckets`; only `open`, `min_ns`, `max_ns` may decrease */
	double rate;	     /* pairs per second in the last tick; NAN: unknown */
	uint64_t p50_ns, p99_ns; /* of the last minute; 0: no pairs */
};

/* Hits split by process, if requested. */
struct watch_row {
	const char *probe;
	pid_t pid; /* 0: all processes that exited more than some minutes ago */
	uint64_t hits;
};

/* Counters of what was not measured. */
struct watch_losses {
	uint64_t pair_map_full, pair_not_keyed, rows_full, children_full;
	uint64_t filter_mismatches; /* hits with an argument of another type than the filter's */
};

/*
 * The work of the garbage collector, summed over the processes that can be read; see
 * process/gc_gauges.h.
 */
struct watch_gc {
	bool is_known;	      /* the figures of a process have been read */
	size_t n_processes;   /* running processes whose figures are included */
	bool has_words;	      /* false: a stripped program hides what ended domains allocated */
	bool has_compactions; /* false: a runtime (OCaml 5.1) has no compactions */
	/* These never decrease, and include processes that have ended. */
	uint64_t minor_words, promoted_words, major_words, allocated_words;
	uint64_t minor_collections, major_collections, compactions;
	uint64_t heap_words, top_heap_words; /* of the processes that run */
	/* Per second, in the last tick; NAN: unknown. */
	double minor_rate, major_rate, allocated_rate, promoted_rate;
	/*
	 * The time spent in gc:minor and gc:major_slice in the last tick, divided by the length of
	 * the tick. With several domains or processes, it can exceed 1. NAN: these phases are not
	 * timed.
	 */
	double pause_share;
};

struct watch_target {
	const char *exe;
	/*
	 * The container of all its processes: its id and its pod's, as from ocp_process_container.
	 * NULL: none, or several.
	 */
	const char *container, *pod;
	const char *title;	  /* `exe`, and the container's id in brackets, short if unique */
	int64_t since_ns;	  /* CLOCK_REALTIME: start of its counters */
	bool is_up;		  /* a process runs and is measured */
	enum watch_engine engine; /* current or last engine */
	const char *problem;	  /* why it is not fully measured; NULL: no problem */
	const pid_t *pids;	  /* its processes, ascending */
	size_t n_pids;
	bool knows_pids;	     /* false: /proc hides some */
	double cost_per_hit_ns;	     /* cost per hit; 0: unknown */
	double cpu_overhead_seconds; /* total; never decreases */
	double cpu_overhead;	     /* of the last tick, as a share of one core */
	double budget;		     /* limit of cpu_overhead; 0: none */
	struct watch_losses losses;
	const char *filter_mismatch;	  /* describes the first filter mismatch; NULL: none */
	const struct watch_probe *probes; /* sorted by name */
	size_t n_probes;
	const struct watch_pair *pairs; /* in the order of the request */
	size_t n_pairs;
	const struct watch_row *rows; /* sorted by probe, then pid */
	size_t n_rows;
	struct watch_gc gc;
};

/* BY_PROCESS: also split hits by process. NULL: out of memory (with the message in CTX). */
struct watch *watch_new(struct ocp_ctx *ctx, bool by_process);
/* Stops measuring. Handlers keep their state. WATCH may be NULL. */
void watch_free(struct watch *watch);

/*
 * Watch the N SPECS, which are copied, and nothing else. Unchanged specs continue without a gap.
 * Changed specs are not measured for about 50 ms; if attaching again fails, their target has that
 * problem. On an error (of ocp_process_open, ocp_meter_open, or ocp_meter_attach for new specs)
 * nothing changes; only -ENOMEM may leave a part of the change. -EINVAL: two specs name the same
 * process.
 */
int watch_set(struct watch *watch, const struct watch_spec *specs, size_t n);
/* The number of the spec that an error of the last watch_set was about. */
size_t watch_failed_spec(const struct watch *watch);

/*
 * Call this every WATCH_TICK_MS. It finds processes that started, exited or loaded plugins, reads
 * the states of handlers and the meters, and adds a column to the history. A failure to measure is
 * the problem of a target, is logged once, and is retried. Returns 0 or -ENOMEM.
 */
int watch_tick(struct watch *watch);
/* Read only the meters, for current numbers. Returns as above. */
int watch_read(struct watch *watch);

size_t watch_target_count(const struct watch *watch);
const struct watch_target *watch_target(const struct watch *watch, size_t target);
/*
 * Return the index of the target called TITLE, or -1; the index of the target's probe NAME, or -1.
 */
ptrdiff_t watch_find_target(const struct watch *watch, const char *title);
ptrdiff_t watch_find_probe(const struct watch_target *target, const char *name);

/* ---- the history ---------------------------------------------------------------------------- */

/* Return the length of a column of SPAN, in ticks. */
static inline size_t watch_column_ticks(enum watch_span span)
{
	return span == WATCH_MINUTE ? 1 : WATCH_QUARTER_TICKS;
}

/* Return the number of columns of SPAN; return when the newest column ended (CLOCK_REALTIME). */
size_t watch_column_count(const struct watch *watch, enum watch_span span);
int64_t watch_column_time_ns(const struct watch *watch, enum watch_span span);
/*
 * Hits per second in column AGE: 0 is the newest, less than WATCH_COLUMNS. Time in which the probe
 * was not counted is left out. NAN: unknown.
 */
double watch_probe_rate(const struct watch *watch, enum watch_span span, size_t target,
			size_t probe, size_t age);
/*
 * The histogram of the times in column AGE: OCP_BUCKETS counts, with the bounds of
 * ocp_bucket_start. NULL: unknown.
 */
const uint32_t *watch_pair_column(const struct watch *watch, enum watch_span span, size_t target,
				  size_t pair, size_t age);

/* ---- switching ------------------------------------------------------------------------------ */

/*
 * Switch PROBE's handlers on or off in all processes of TARGET, like `ocaml-probes attach
 * --enable` and --disable. *N is the number of processes changed. -ESRCH: there is no process.
 * After trying all processes, returns the first error.
 */
int watch_switch_handler(struct watch *watch, size_t target, const char *probe, bool on, size_t *n);
/*
 * Start or stop counting PROBE's hits; see ocp_meter_switch(). -ENOTSUP: the hits are counted
 * inside.
 */
int watch_switch_counter(struct watch *watch, size_t target, const char *probe, bool on);
/*
 * In targets whose rules count all probes and name none, stop counting each probe whose name begins
 * with PREFIX. Each probe is switched off only once, so that it can be switched on again. Call this
 * after each tick.
 */
void watch_leave_probes(struct watch *watch, const char *prefix);

#endif

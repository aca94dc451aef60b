/* SPDX-License-Identifier: MIT */
/*
 * Room watch: programs that come and go.
 * In: names of programs, and a request for each.
 * Out: totals, rates and the last minute of each program.
 * Callers: serve, top and tool.
 */
/*
 * A watch: the probes of programs over time, for a terminal, a scrape or a page.
 *
 *	specs -> targets -> sources (a meter each) -> samples -> totals, rates, the history
 *
 * A target is an executable, identified by its path. Its processes start and exit, and the file may
 * be replaced by a newer one. A source measures one process, or every process of one file. The
 * numbers of a target are the sums over all its sources, including ended ones. So the numbers of a
 * target never decrease, whatever happens to its processes.
 *
 * Uprobes belong to a file, not to its name, so two targets for one file would count each hit
 * twice. So when all programs are watched, a file with several names (hard links, bind mounts) is
 * one target. The target has the name that was found first, usually that of the process with the
 * lowest pid, and keeps this name even if only processes with other names remain. If a file is
 * replaced by another file of the same name, both are one target, with a source for each file.
 *
 * Different containers have different targets. A file that several containers run (from a volume)
 * is a target without a container. Files on overlays are separate, even if they share a lower file;
 * see kernel/kernel_file.c.
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
#include "measure/args/request.h"
#include "ocaml_probes.h"

enum {
	WATCH_COLUMNS = 60,	  /* number of columns of each span of the history */
	WATCH_TICK_MS = 1000,	  /* the interval at which to call watch_tick() */
	WATCH_QUARTER_TICKS = 15, /* number of ticks in a column of WATCH_QUARTER_HOUR */
};

/* The spans of the history. */
enum watch_span {
	WATCH_MINUTE,	    /* a column for each tick */
	WATCH_QUARTER_HOUR, /* a column for each WATCH_QUARTER_TICKS ticks; only complete columns */
};

struct watch;

/* How many values of an argument a program may have as values of a label. */
enum { WATCH_LABEL_LIMIT = 100, WATCH_LABEL_MOST = 4096 };

/* The label whose values are those of the argument measure_request.by. */
struct watch_label_spec {
	const char *name; /* NULL: the request does not group by an argument */
	/* How many values are told apart, 1 to WATCH_LABEL_MOST. All others count together. */
	size_t limit;
};

/* One thing to watch. */
struct watch_spec {
	const char *exe; /* watch every process of this file, now or later; NULL: see `pid` */
	/* Accept that EXE does not exist yet: the target has a problem until EXE exists. */
	bool may_be_missing;
	/*
	 * Watch this process and, after it exits, another process of its executable. If `pid` is 0
	 * and EXE is NULL: every running program with probes.
	 */
	pid_t pid;
	/*
	 * What to measure. If measuring exceeds the budget of the request, the busiest counters (at
	 * most 8 per tick) are switched off. If that is not enough, measuring ends, and the target
	 * has a problem.
	 */
	const struct measure_request *request;
	/*
	 * The engine. ENGINE_INSIDE: each process that belongs to our user counts inside; needs EXE
	 * or PID. ENGINE_AUTO: BPF, if BPF is permitted or the request needs it; if counting by BPF
	 * exceeds the budget, counting moves inside. ENGINE_DEFAULT: the same choice, but counting
	 * never moves because of the budget.
	 */
	enum engine_choice engine;
	/*
	 * Set if the request groups by an argument. Specs of the same program must have the same
	 * label, and the same argument. If these change, the totals of the program start again at
	 * 0: values would otherwise get rows that lack their earlier hits.
	 */
	struct watch_label_spec label;
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

/* The values of the argument by which the numbers of a target are split. */
struct watch_label {
	const char *name;
	size_t limit; /* maximum number of values, without WATCH_OTHER */
	/*
	 * Texts in UTF-8, all different, in the order in which the values were found.
	 * [WATCH_OTHER] is "other": all values for which there is no room, or which are neither
	 * numbers nor strings.
	 */
	const char *const *values;
	size_t n_values;
};

enum { WATCH_OTHER = 0 };

/* The hits of a probe with one value. `hits` never decreases. */
struct watch_value_hits {
	size_t value; /* an index in watch_label.values */
	uint64_t hits;
	uint64_t base; /* the part of `hits` that comes from ended sources */
};

/* The times of a pair with one value. They never decrease. */
struct watch_value_times {
	size_t value; /* an index in watch_label.values */
	uint64_t count, sum_ns;
	const uint64_t *buckets; /* OCP_BUCKETS counts */
};

enum watch_handler {
	WATCH_HANDLER_UNKNOWN, /* no process runs, or no process can be read */
	WATCH_HANDLER_OFF,
	WATCH_HANDLER_ON,
	WATCH_HANDLER_MIXED, /* on in some processes or at some sites */
	WATCH_HANDLER_NONE,  /* not a probe, but a function or other code, which has no handlers */
};

struct watch_probe {
	const char *name;
	uint64_t hits; /* never decreases */
	double rate;   /* hits per second in the last tick; NAN: unknown */
	size_t n_sites;
	bool is_counted; /* the hits of the probe are counted */
	bool is_in_pair; /* part of a timed pair: its counter cannot be switched */
	enum watch_handler handler;
	size_t n_enabled;		    /* number of processes in which the handlers are on */
	size_t n_uses, n_uses_without_site; /* as in struct ocp_probe_hits */
	/*
	 * The hits by the values of the label, sorted by value. No values: no process has groups
	 * for the probe, for example because the probe lacks the argument.
	 */
	const struct watch_value_hits *values;
	size_t n_values;
	/*
	 * If there are values: processes of another file may lack the argument. Their hits are not
	 * split. `unsplit_hits` never decreases.
	 */
	bool has_unsplit;
	uint64_t unsplit_hits;
};

struct watch_pair {
	const char *start, *stop;
	/* Totals of all sources. Only `open`, `min_ns` and `max_ns` may decrease. */
	struct ocp_pair sum;
	double rate;		 /* pairs per second in the last tick; NAN: unknown */
	uint64_t p50_ns, p99_ns; /* quantiles of the last minute; 0: no pairs */
	/* The times by the values of the label, sorted by value; no values: there is no label. */
	const struct watch_value_times *values;
	size_t n_values;
};

/* Hits split by process, if requested. */
struct watch_row {
	const char *probe;
	pid_t pid; /* 0: all exited processes whose rows have been merged */
	uint64_t hits;
};

/* Counters of what was not measured. */
struct watch_losses {
	uint64_t pair_map_full, pair_not_keyed, rows_full, children_full;
	/* Hits in which an argument has another type than the filter compares it with. */
	uint64_t filter_mismatches;
	/*
	 * Hits, and times of pairs, that count as WATCH_OTHER because the argument is neither a
	 * number nor a string, or cannot be read.
	 */
	uint64_t unreadable_values;
};

/*
 * The work of the garbage collector, summed over the processes that can be read;
 * process/gc_gauges.h describes the figures.
 */
struct watch_gc {
	bool is_known;	    /* figures of at least one process have been read */
	size_t n_processes; /* running processes whose figures are included */
	/*
	 * False if a program is stripped: the words that its ended domains allocated are then
	 * unknown.
	 */
	bool has_words;
	bool has_compactions; /* false: the runtime of a process (OCaml 5.1) has no compactions */
	/* The following sums never decrease, and include processes that have ended. */
	uint64_t minor_words, promoted_words, major_words, allocated_words;
	uint64_t minor_collections, major_collections, compactions;
	uint64_t heap_words, top_heap_words; /* sums over the running processes */
	/* Growth of the sums per second, in the last tick; NAN: unknown. */
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
	 * The ids of the container and of the pod of all its processes, as ocp_process_container()
	 * returns them. NULL: no container, or several.
	 */
	const char *container, *pod;
	/* `exe`, and the container's id in brackets, shortened if that is unique */
	const char *title;
	int64_t since_ns;	  /* CLOCK_REALTIME: when its counters began */
	bool is_up;		  /* a process runs and is measured */
	enum watch_engine engine; /* the engine that measures it, or measured it last */
	const char *problem;	  /* why it is not fully measured; NULL: no problem */
	const pid_t *pids;	  /* its processes, in ascending order */
	size_t n_pids;
	bool knows_pids;	     /* false: there may be processes that are not in `pids` */
	double cost_per_hit_ns;	     /* cost per hit; 0: unknown */
	double cpu_overhead_seconds; /* total; never decreases */
	double cpu_overhead;	     /* of the last tick, as a share of one core */
	double budget;		     /* limit of cpu_overhead; 0: no limit */
	struct watch_losses losses;
	/* Describes the first filter mismatch; NULL: there was none. */
	const char *filter_mismatch;
	const struct watch_label *label;  /* NULL: the numbers are not split by an argument */
	const struct watch_probe *probes; /* sorted by name */
	size_t n_probes;
	const struct watch_pair *pairs; /* in the order of the request */
	size_t n_pairs;
	const struct watch_row *rows; /* sorted by probe, then pid */
	size_t n_rows;
	struct watch_gc gc;
};

/*
 * Create a watch without specs. BY_PROCESS: also split hits by process. NULL: out of memory (with
 * the message in CTX).
 */
struct watch *watch_new(struct ocp_ctx *ctx, bool by_process);
/* Stop measuring, and free WATCH, which may be NULL. Handlers keep their state. */
void watch_free(struct watch *watch);

/*
 * Watch the N SPECS, which are copied, instead of the previous ones. Specs that are unchanged
 * continue without a gap. Changed specs are not measured for about 50 ms; if attaching again fails,
 * their target has a problem. After an error (of ocp_process_open, ocp_meter_open, or
 * ocp_meter_attach for new specs) nothing has changed. -ENOMEM is an exception: some specs may have
 * changed. -EINVAL: two specs name the same process.
 */
int watch_set(struct watch *watch, const struct watch_spec *specs, size_t n);
/* Return the index of the spec that caused the last error of watch_set(). */
size_t watch_failed_spec(const struct watch *watch);

/*
 * Call this every WATCH_TICK_MS. watch_tick() finds processes that have started, exited or loaded
 * plugins, reads the states of handlers and the meters, and adds a column to the history. A failure
 * to measure is logged once, becomes the problem of the target, and is retried. Return 0 or
 * -ENOMEM.
 */
int watch_tick(struct watch *watch);
/* Read only the meters, for current numbers. Return 0, or the error of a meter. */
int watch_read(struct watch *watch);

size_t watch_target_count(const struct watch *watch);
const struct watch_target *watch_target(const struct watch *watch, size_t target);
/*
 * watch_find_target() returns the index of the target called TITLE, or -1. watch_find_probe()
 * returns the index of the target's probe NAME, or -1.
 */
ptrdiff_t watch_find_target(const struct watch *watch, const char *title);
ptrdiff_t watch_find_probe(const struct watch_target *target, const char *name);

/* ---- the history ---------------------------------------------------------------------------- */

/* Return the length of a column of SPAN, in ticks. */
static inline size_t watch_column_ticks(enum watch_span span)
{
	return span == WATCH_MINUTE ? 1 : WATCH_QUARTER_TICKS;
}

/*
 * watch_column_count() returns the number of complete columns of SPAN, at most WATCH_COLUMNS.
 * watch_column_time_ns() returns when the newest complete column ended (CLOCK_REALTIME).
 */
size_t watch_column_count(const struct watch *watch, enum watch_span span);
int64_t watch_column_time_ns(const struct watch *watch, enum watch_span span);
/*
 * Return the hits per second in column AGE: 0 is the newest, WATCH_COLUMNS - 1 the oldest. Time in
 * which the probe was not counted is left out. NAN: unknown.
 */
double watch_probe_rate(const struct watch *watch, enum watch_span span, size_t target,
			size_t probe, size_t age);
/*
 * Return the histogram of the times of the pair in column AGE: OCP_BUCKETS counts;
 * ocp_bucket_start() returns their bounds. NULL: unknown.
 */
const uint32_t *watch_pair_column(const struct watch *watch, enum watch_span span, size_t target,
				  size_t pair, size_t age);

/* ---- switching ------------------------------------------------------------------------------ */

/*
 * Switch PROBE's handlers on or off in all processes of TARGET, like `ocaml-probes attach --enable`
 * and --disable. Set *N to the number of processes that were changed. -ESRCH: TARGET has no
 * process. After other errors, try the remaining processes, then return the first error.
 */
int watch_switch_handler(struct watch *watch, size_t target, const char *probe, bool on, size_t *n);
/*
 * Start or stop counting PROBE's hits; see ocp_meter_switch(). -ENOTSUP: the hits are counted
 * inside, where counters cannot be switched.
 */
int watch_switch_counter(struct watch *watch, size_t target, const char *probe, bool on);
/*
 * Stop counting each probe whose name begins with PREFIX, except in targets for which the user has
 * named what to count. Each probe is switched off only once, so that the user can switch it on
 * again. Call this after each tick.
 */
void watch_leave_probes(struct watch *watch, const char *prefix);

#endif

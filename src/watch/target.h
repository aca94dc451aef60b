/* SPDX-License-Identifier: MIT */
/*
 * A target: an executable and the sources that measure it. Each tick adds up the samples of the
 * sources, and adds a column to the history, which is kept in ring buffers. Members called base...
 * hold the sums over the sources that have ended.
 */
#ifndef WATCH_TARGET_H
#define WATCH_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "look/container.h"
#include "look/find.h"
#include "watch/collector.h"
#include "watch/handlers.h"
#include "watch/label.h"
#include "watch/source.h"
#include "watch/verdicts.h"
#include "watch/watch.h"

/*
 * The length of the ring for WATCH_QUARTER_HOUR: the complete columns, and the column that is being
 * filled.
 */
enum { QUARTER_RING = WATCH_COLUMNS + 1 };

/* What a target stores about a probe, besides the struct watch_probe with the same index. */
struct probe_record {
	uint64_t base_hits;    /* the sum of the hits of ended sources */
	uint64_t hits_at_tick; /* value of `hits` at the last tick */
	struct labelled_hits values;
	uint64_t base_unsplit; /* like base_hits, for unsplit_hits */
	bool is_off; /* the counter is switched off, also in sources that are added later */
	bool is_cut; /* a budget has switched the counter off */
	/* watch_leave_probes() has switched the counter off before, and will not do it again. */
	bool was_left;
	float rates[WATCH_COLUMNS];
	/*
	 * Hits and time in the newest column of the quarter hour, without the ticks in which the
	 * rate was unknown.
	 */
	uint64_t quarter_hits;
	int64_t quarter_ns;
	float quarters[QUARTER_RING];
};

/* What a target stores about a pair, besides the struct watch_pair with the same index. */
struct pair_record {
	struct ocp_pair base;
	uint64_t base_buckets[OCP_BUCKETS];
	struct labelled_times values;
	/* Sums over ended and current sources; the watch_pair's sum.buckets points here. */
	uint64_t buckets[OCP_BUCKETS];
	uint64_t buckets_at_tick[OCP_BUCKETS];
	uint64_t minute[OCP_BUCKETS]; /* the sum of `columns` */
	uint64_t count_at_tick;
	bool has_column[WATCH_COLUMNS];
	uint32_t columns[WATCH_COLUMNS][OCP_BUCKETS];
	bool has_quarter[QUARTER_RING];
	uint32_t quarters[QUARTER_RING][OCP_BUCKETS];
};

/* Identifies a file. Another file cannot get the same inode number while FILE is open. */
struct file_id {
	dev_t dev;
	ino_t ino;
	int file; /* opened with O_PATH; -1: not open */
};

struct target {
	struct watch_target view;
	struct ocp_ctx *ctx;
	struct container container; /* all "": no container, or several */
	struct source **sources;
	size_t n_sources;
	bool is_discovered; /* found by a search, not named by the user */
	/* CLOCK_MONOTONIC: since when the target has had no process; 0: it has a process. */
	int64_t idle_since_ns;

	/* What the pointers in `view` point to. */
	char *exe, *title, *problem, *mismatch;
	pid_t *pids;
	struct watch_probe *probes;
	struct probe_record **probe_records;
	struct watch_pair *pairs;
	struct pair_record **pair_records;
	struct watch_row *rows;
	size_t rows_room;

	struct label label;
	struct handlers handlers;
	struct collector collector;
	struct watch_losses base_losses;
	struct watch_row *base_rows; /* rows of ended sources */
	size_t n_base_rows;
	double base_cost_seconds;
	bool had_tick;
	bool has_told_matching;	  /* it has been logged how the pairs are matched */
	bool is_over_budget;	  /* measuring has ended because of the budget */
	struct file_id *given_up; /* files that are not measured any more because of the budget */
	size_t n_given_up;
	/*
	 * `problem` is the error of the last refresh. The next successful refresh clears it, and
	 * this flag.
	 */
	bool problem_passes;
};

/* Make a target without sources. EXE and TITLE are copied. */
int target_new(struct ocp_ctx *ctx, const char *exe, const char *title,
	       const struct container *container, struct target **out);
/* Free TARGET and its sources. TARGET may be NULL. */
void target_free(struct target *target);

/* Add SOURCE, which must be attached. On success TARGET owns SOURCE. */
int target_add_source(struct target *target, struct source *source);
/*
 * Add the final numbers of the source with index SOURCE to the sums of ended sources, and free the
 * source.
 */
int target_end_source(struct target *target, size_t source);
/* Like target_end_source(), and record that measuring the source's file exceeded the budget. */
int target_give_up_source(struct target *target, size_t source);
/*
 * End all sources of OWNER with the function END: target_end_source() or target_give_up_source().
 */
int target_end_sources(struct target *target, const void *owner,
		       int (*end)(struct target *target, size_t source));
/*
 * Set *IS_RUN to whether a process runs a file that was given up. If no process does, the caller
 * may remove the target. Return 0 or the error of find_processes().
 */
int target_is_run(struct target *target, struct find_memory *known, bool *is_run);
/* Forget which files of TARGET exceeded the budget. */
void target_forgive(struct target *target);

/*
 * Update the list of processes from all sources, and whether the target is up. Return -ENOMEM or 0.
 */
int target_collect_pids(struct target *target);
/*
 * Merge the rows of exited processes of ended sources into one row per probe, with pid 0, as a
 * meter does.
 */
void target_forget_rows(struct target *target);

/* Read all sources, and update the sums. */
int target_read(struct target *target);
/*
 * Fill column COLUMN of the minute with the changes since the last tick, DT_NS ago, and add these
 * changes to column QUARTER of the quarter hour. Do not read the meters.
 */
void target_tick(struct target *target, size_t column, size_t quarter, int64_t dt_ns);
/* Mark column COLUMN of the minute as unknown. */
void target_skip(struct target *target, size_t column);
/* Begin column QUARTER of the quarter hour, which is unknown until the first tick. */
void target_begin_quarter(struct target *target, size_t quarter);

/*
 * Set the reason why the target is not (fully) measured to a copy of WHY; NULL: no problem. If the
 * reason has changed, log it. Return -ENOMEM or 0.
 */
int target_set_problem(struct target *target, const char *why);

/* Return the index of the pair that has the start and stop of PAIR, or -1. */
ptrdiff_t target_find_pair(const struct target *target, const struct ocp_pair *pair);
/* Return the index of the probe NAME, which must exist. */
ptrdiff_t target_find_probe(const struct target *target, const char *name);

/* ---- target_label.c -------------------------------------------------------------------------- */

/*
 * target_set_label(): split the numbers of TARGET, which has no sources yet, by the values of the
 * argument ARG, as SPEC says; ARG is NULL if they are not to be split. Return 0 or -ENOMEM.
 * target_has_label() returns true if TARGET splits its numbers in this way.
 */
int target_set_label(struct target *target, const struct watch_label_spec *spec, const char *arg);
bool target_has_label(const struct target *target, const struct watch_label_spec *spec,
		      const char *arg);
/* Give rows to the new values in the samples of all sources. Return 0 or -ENOMEM. */
int target_learn_values(struct target *target);
/*
 * target_reset_labelled() sets the numbers that are split by value to the sums over ended sources,
 * target_add_labelled() adds those of SOURCE, and target_show_labelled() puts them into the view.
 * IS_FINAL: SOURCE ends, so that the sums over ended sources change, too.
 */
void target_reset_labelled(struct target *target);
int target_add_labelled(struct target *target, const struct source *source, bool is_final);
void target_show_labelled(struct target *target);

/* ---- the targets of a watch ------------------------------------------------------------------ */

/*
 * The targets of a watch, and what the watch knows about processes and files. Rules add their
 * targets to `list`.
 */
struct targets {
	struct ocp_ctx *ctx;
	bool by_process;
	struct target **list;
	size_t n;
	struct find_memory known; /* the processes found so far; expired at each tick */
	struct verdicts *verdicts;
};

/* Initialize TARGETS. Return 0 or -ENOMEM (with the message in CTX). */
int targets_init(struct targets *targets, struct ocp_ctx *ctx, bool by_process);
void targets_free(struct targets *targets);

/* Return the target of EXE in CONTAINER, or NULL if there is none. */
struct target *targets_find(const struct targets *targets, const char *exe,
			    const struct container *container);
/* Set *OUT to the target of EXE in CONTAINER. If there is none, create it. */
int targets_get(struct targets *targets, const char *exe, const struct container *container,
		struct target **out);
void targets_remove(struct targets *targets, size_t number);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The data of a target: the sums over its sources, with ended sources in the bases, and the rings
 * of the history.
 */
#ifndef WATCH_TARGET_H
#define WATCH_TARGET_H

#include "process/container.h"
#include "process/find.h"
#include "watch/collector.h"
#include "watch/handlers.h"
#include "watch/source.h"
#include "watch/watch.h"

/* The complete columns of WATCH_QUARTER_HOUR, and the one that is being filled. */
enum { QUARTER_RING = WATCH_COLUMNS + 1 };

/* Extends the struct watch_probe of the same index. */
struct probe_record {
	uint64_t base_hits;    /* the hits of ended sources */
	uint64_t hits_at_tick; /* at the last tick */
	bool is_off;	       /* the counter is off, in new sources too */
	bool is_cut;	       /* off because of a budget */
	bool was_left;	       /* was switched off once by watch_leave_probes */
	float rates[WATCH_COLUMNS];
	/* Sums over the ticks of the newest quarter in which the rate was known. */
	uint64_t quarter_hits;
	int64_t quarter_ns;
	float quarters[QUARTER_RING];
};

/* Extends the struct watch_pair of the same index. */
struct pair_record {
	struct ocp_pair base;
	uint64_t base_buckets[OCP_BUCKETS];
	uint64_t buckets[OCP_BUCKETS]; /* bases and sources; the watch_pair points here */
	uint64_t buckets_at_tick[OCP_BUCKETS];
	uint64_t minute[OCP_BUCKETS]; /* the sum of all columns */
	uint64_t count_at_tick;
	bool has_column[WATCH_COLUMNS];
	uint32_t columns[WATCH_COLUMNS][OCP_BUCKETS];
	bool has_quarter[QUARTER_RING];
	uint32_t quarters[QUARTER_RING][OCP_BUCKETS];
};

/* Keeping FILE open prevents reuse of the inode number. */
struct file_id {
	dev_t dev;
	ino_t ino;
	int file; /* O_PATH; -1: none */
};

struct target {
	struct watch_target view;
	struct ocp_ctx *ctx;
	struct container container; /* all "": none */
	struct source **sources;
	size_t n_sources;
	bool is_discovered;    /* not named by the user */
	int64_t idle_since_ns; /* CLOCK_MONOTONIC: without a process since; 0: has one */

	/* The view points to these. */
	char *exe, *title, *problem, *mismatch;
	pid_t *pids;
	struct watch_probe *probes;
	struct probe_record **probe_records;
	struct watch_pair *pairs;
	struct pair_record **pair_records;
	struct watch_row *rows;
	size_t rows_room;

	struct handlers handlers;
	struct collector collector;
	struct watch_losses base_losses;
	struct watch_row *base_rows; /* of ended sources */
	size_t n_base_rows;
	double base_cost_seconds;
	bool had_tick;
	bool has_told_matching;	  /* has logged how pairs are matched */
	bool is_over_budget;	  /* measuring ended because of the budget */
	struct file_id *given_up; /* files no longer measured for that reason */
	size_t n_given_up;
	bool problem_passes; /* the problem concerns only the last refresh */
};

/* EXE and TITLE are copied. */
int target_new(struct ocp_ctx *ctx, const char *exe, const char *title,
	       const struct container *container, struct target **out);
/* Free TARGET and its sources. TARGET may be NULL. */
void target_free(struct target *target);

/* On success TARGET owns SOURCE, which is attached. */
int target_add_source(struct target *target, struct source *source);
/* Add the final numbers of source number SOURCE to the bases, and free it. */
int target_end_source(struct target *target, size_t source);
/* Like target_end_source, and record that measuring the source's file cost too much. */
int target_give_up_source(struct target *target, size_t source);
/* End all sources of OWNER with END, one of the two functions above. */
int target_end_sources(struct target *target, const void *owner,
		       int (*end)(struct target *target, size_t source));
/*
 * Does a process run a file that was given up? If not, the target can be forgotten. Returns
 * -ENOMEM or another error of the search.
 */
int target_is_run(struct target *target, struct find_memory *known, bool *is_run);
/* Forget which files of TARGET cost too much. */
void target_forgive(struct target *target);

/* Update the processes of all sources, and whether the target is up. Returns -ENOMEM or 0. */
int target_collect_pids(struct target *target);
/* Merge the rows of exited processes of ended sources into one row with pid 0, as a meter does. */
void target_forget_rows(struct target *target);

/* Read all sources and update the sums. */
int target_read(struct target *target);
/* ---- target_history.c ----------------------------------------------------------------------- */

/* Return a new record of a probe, with unknown rates. NULL: out of memory. */
struct probe_record *target_new_probe_record(void);
/*
 * Fill column number COLUMN of the minute from the DT_NS since the last tick, and add it to column
 * number QUARTER of the quarter hour. Reads no meter.
 */
void target_tick(struct target *target, size_t column, size_t quarter, int64_t dt_ns);
/* Mark column number COLUMN of the minute as unknown. */
void target_skip(struct target *target, size_t column);
/* Begin column number QUARTER of the quarter hour, and mark it as unknown. */
void target_begin_quarter(struct target *target, size_t quarter);

/*
 * Set the reason why the target is not measured: WHY is copied; NULL: none. Log it if it is new.
 * Returns -ENOMEM or 0.
 */
int target_set_problem(struct target *target, const char *why);

#endif

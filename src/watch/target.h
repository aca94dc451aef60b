/* SPDX-License-Identifier: MIT */
/*
 * What is known of a target: the sums over its sources, of which those that have ended are in the
 * bases, and the rings of the last minute.
 */
#ifndef WATCH_TARGET_H
#define WATCH_TARGET_H

#include "process/container.h"
#include "process/find.h"
#include "watch/handlers.h"
#include "watch/source.h"
#include "watch/watch.h"

/* Beside the struct watch_probe of the same number. */
struct probe_record {
	uint64_t base_hits;    /* of sources that have ended */
	uint64_t hits_at_tick; /* when the last tick was */
	bool is_off;	       /* its counter is switched off, also in sources to come */
	bool is_cut;	       /* because of a budget */
	float rates[WATCH_COLUMNS];
};

/* Beside the struct watch_pair of the same number. */
struct pair_record {
	struct ocp_pair base;
	uint64_t base_buckets[OCP_BUCKETS];
	uint64_t buckets[OCP_BUCKETS]; /* base and sources: those of the watch_pair */
	uint64_t buckets_at_tick[OCP_BUCKETS];
	uint64_t minute[OCP_BUCKETS]; /* the sum of all columns */
	uint64_t count_at_tick;
	bool has_column[WATCH_COLUMNS];
	uint32_t columns[WATCH_COLUMNS][OCP_BUCKETS];
};

/* While FILE is open, no other file gets these numbers. */
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
	bool is_discovered;    /* nobody asked for it by name */
	int64_t idle_since_ns; /* CLOCK_MONOTONIC: without a process; 0: it has some */

	/* What the view points to. */
	char *exe, *title, *problem, *mismatch;
	pid_t *pids;
	struct watch_probe *probes;
	struct probe_record **probe_records;
	struct watch_pair *pairs;
	struct pair_record **pair_records;
	struct watch_row *rows;
	size_t rows_room;

	struct handlers handlers;
	struct watch_losses base_losses;
	struct watch_row *base_rows; /* of sources that have ended */
	size_t n_base_rows;
	double base_cost_seconds;
	bool had_tick;
	bool is_over_budget;	  /* measuring has ended because of what it cost */
	struct file_id *given_up; /* the files whose measuring has */
	size_t n_given_up;
	bool problem_passes; /* it is one of the last refresh only */
};

/* EXE and TITLE are copied. */
int target_new(struct ocp_ctx *ctx, const char *exe, const char *title,
	       const struct container *container, struct target **out);
/* Its sources with it. Takes NULL. */
void target_free(struct target *target);

/* TARGET owns SOURCE, which is attached, if this succeeds. */
int target_add_source(struct target *target, struct source *source);
/* The last numbers of source number SOURCE go to the bases, and it is freed. */
int target_end_source(struct target *target, size_t source);
/* Likewise, and remember its file as one that cost too much. */
int target_give_up_source(struct target *target, size_t source);
/* Have all sources of OWNER ended by END, one of the two. */
int target_end_sources(struct target *target, const void *owner,
		       int (*end)(struct target *target, size_t source));
/*
 * Does a process run one of the files that were given up? With the container of the last one, which
 * will not come back, the target can be forgotten. Returns -ENOMEM or another error of the search.
 */
int target_is_run(struct target *target, struct find_memory *known, bool *is_run);
/* What it cost is forgiven. */
void target_forgive(struct target *target);

/* The processes of all sources, and whether it is up. Returns -ENOMEM or 0. */
int target_collect_pids(struct target *target);
/* Processes of ended sources that have ended, too, become one, 0, as those of a meter do. */
void target_forget_rows(struct target *target);

/* Read all sources and add them up. */
int target_read(struct target *target);
/* Column number COLUMN is what came in the DT_NS since the last tick. Reads nothing. */
void target_tick(struct target *target, size_t column, int64_t dt_ns);

/* Nothing is known of what would have been in column number COLUMN. */
void target_skip(struct target *target, size_t column);

/*
 * WHY it is not measured, copied, or NULL; logged when it is news. Returns -ENOMEM or 0.
 */
int target_set_problem(struct target *target, const char *why);

#endif

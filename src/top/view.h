/* SPDX-License-Identifier: MIT */
/*
 * The visible probes, their order, and the cursor. This code works without a screen.
 *
 * When the order changes, the cursor stays on its probe. But before the user has moved the cursor,
 * and after the key Home, the cursor stays on the first line, whichever probe is there.
 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "watch/watch.h"

/* ---- snapshots ------------------------------------------------------------------------------ */

/*
 * A copy of the numbers of a watch at one moment, so that the screen can stay unchanged while the
 * watch continues, and so that two moments can be compared.
 */

struct seen_probe {
	const char *name;
	size_t target; /* index of the target in the snapshot and in the watch */
	size_t index;  /* index of the probe in the watch's target */
	uint64_t hits;
	double rate; /* NAN: unknown */
	size_t n_sites, n_uses, n_uses_without_site, n_enabled;
	enum watch_handler handler;
	bool is_counted, is_in_pair;
};

struct seen_pair {
	const char *start, *stop;
	size_t target;
	double rate;
	uint64_t p50_ns, p99_ns, max_ns, open, orphans, mismatched;
	const char *note; /* advice about orphans and mismatches; NULL: none */
};

struct seen_target {
	/* `exe` is the title of the target. `name` is the title without the folders of its path. */
	const char *exe, *name;
	const char *problem; /* NULL: no problem */
	bool is_up, knows_pids;
	enum watch_engine engine;
	const pid_t *pids;
	size_t n_pids;
	int64_t since_ns;
	double cost_per_hit_ns, cpu_overhead;
	double rate; /* sum of the rates of all probes of the target; NAN: unknown */
	struct watch_losses losses;
	const char *filter_mismatch;
	struct watch_gc gc;
};

struct view_snapshot {
	int64_t time_ns; /* CLOCK_REALTIME: when the snapshot was taken */
	struct seen_target *targets;
	size_t n_targets;
	struct seen_probe *probes; /* sorted by target, then by name */
	size_t n_probes;
	struct seen_pair *pairs;
	size_t n_pairs;
	float *history; /* WATCH_COLUMNS rates per probe, the oldest first; NULL: not copied */
	uint64_t most_hits;
	size_t longest_name, longest_exe, longest_pair; /* in bytes */
	void *texts;					/* owns all names and pids */
};

/* Return a snapshot of WATCH. NULL: out of memory. */
struct view_snapshot *view_snapshot_take(const struct watch *watch);
void view_snapshot_free(struct view_snapshot *snapshot);

/*
 * Copy the rates of the last minute into the snapshot, too. WATCH must be unchanged since
 * view_snapshot_take(). Return 0 or -ENOMEM.
 */
int view_snapshot_copy_history(struct view_snapshot *snapshot, const struct watch *watch);
/*
 * Copy the rates of PROBE in the last minute to RATES, which has WATCH_COLUMNS elements. If the
 * snapshot has no history, read it from WATCH, which must be unchanged since view_snapshot_take().
 */
void view_snapshot_history(const struct view_snapshot *snapshot, const struct watch *watch,
			   const struct seen_probe *probe, float *rates);

/*
 * view_snapshot_find_target() returns the target with the title EXE, view_snapshot_find_probe()
 * returns the probe NAME of that target; both return NULL if there is none.
 */
const struct seen_target *view_snapshot_find_target(const struct view_snapshot *snapshot,
						    const char *exe);
struct seen_probe *view_snapshot_find_probe(const struct view_snapshot *snapshot, const char *exe,
					    const char *name);

enum sort_key { SORT_RATE, SORT_HITS, SORT_NAME, SORT_HANDLER, SORT_EXE, N_SORT_KEYS };

enum { FILTER_BYTES = 64 };

struct view {
	struct view_snapshot *seen; /* never NULL after the first view_show() */
	size_t *order;		    /* indices of the visible probes */
	size_t n_shown;
	enum sort_key key;
	/* The order is reversed; normally numbers are descending and texts ascending. */
	bool is_reversed;
	char filter[FILTER_BYTES]; /* text that visible names contain; case does not matter */
	size_t cursor, first;	   /* indices into `order`; `first` is the top line on the screen */
	size_t n_lines;		   /* lines on the screen for probes; 0: unknown */
	/* the probe that the cursor stays on; NULL: the cursor stays on the first line */
	char *exe, *name;
};

void view_free(struct view *view);

/* Show SEEN, and take ownership of it, also after an error. Return 0 or -ENOMEM. */
int view_show(struct view *view, struct view_snapshot *seen);
/* Set the number of screen lines for probes. */
void view_set_lines(struct view *view, size_t n);

/* Sort by KEY. If the order is by KEY already, reverse it. */
void view_sort(struct view *view, enum sort_key key);
/*
 * view_filter_add() adds CHARACTER to the filter, and returns false if the filter is full.
 * view_filter_remove() removes the filter's last character, and returns false if the filter is
 * empty.
 */
bool view_filter_add(struct view *view, const char *character);
bool view_filter_remove(struct view *view);
void view_filter_clear(struct view *view);

/* Move the cursor down by LINES, which may be negative. */
void view_move(struct view *view, ptrdiff_t lines);
void view_home(struct view *view);
void view_end(struct view *view);
/* Let the cursor stay on its current probe. Return the probe, or NULL if no probe is visible. */
struct seen_probe *view_hold(struct view *view);

/* Return the probe on line LINE of the visible probes, counted from 0. */
const struct seen_probe *view_probe(const struct view *view, size_t line);
/* Return true if the pair matches the filter. */
bool view_shows_pair(const struct view *view, const struct seen_pair *pair);

#endif

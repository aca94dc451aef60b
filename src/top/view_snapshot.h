/* SPDX-License-Identifier: MIT */
/*
 * A copy of the numbers of a watch at one moment, so that the screen can stay unchanged while the
 * watch continues, and so that two moments can be compared.
 */
#ifndef TOP_VIEW_SNAPSHOT_H
#define TOP_VIEW_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "watch/watch.h"

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
	/* The title, and the part of the title from its last path component on. */
	const char *exe, *name;
	const char *problem; /* NULL: no problem */
	bool is_up, knows_pids;
	enum watch_engine engine;
	const pid_t *pids;
	size_t n_pids;
	int64_t since_ns;
	double cost_per_hit_ns, cpu_overhead;
	double rate; /* sum over all its probes; NAN: unknown */
	struct watch_losses losses;
	const char *filter_mismatch;
	struct watch_gc gc;
};

struct view_snapshot {
	int64_t time_ns; /* CLOCK_REALTIME */
	struct seen_target *targets;
	size_t n_targets;
	struct seen_probe *probes; /* sorted by target, then by name */
	size_t n_probes;
	struct seen_pair *pairs;
	size_t n_pairs;
	float *history; /* WATCH_COLUMNS rates per probe, the oldest first; NULL: not copied */
	uint64_t most_hits;
	size_t longest_name, longest_exe, longest_pair; /* in columns of the screen */
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
 * view_snapshot_find_target() returns the target with the title EXE, view_snapshot_find_probe() its
 * probe NAME; both return NULL if there is none.
 */
const struct seen_target *view_snapshot_find_target(const struct view_snapshot *snapshot,
						    const char *exe);
struct seen_probe *view_snapshot_find_probe(const struct view_snapshot *snapshot, const char *exe,
					    const char *name);

#endif

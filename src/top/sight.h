/* SPDX-License-Identifier: MIT */
/*
 * What a watch knew at one moment, copied out of it: what is on the screen stays as it is while the
 * watch goes on, and can be held against what comes later.
 */
#ifndef TOP_SIGHT_H
#define TOP_SIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "watch/watch.h"

struct seen_probe {
	const char *name;
	size_t target; /* its number in the sight and in the watch */
	size_t index;  /* its number in the watch's target */
	uint64_t hits;
	double rate; /* NAN: not known yet */
	size_t n_sites, n_uses, n_uses_without_site, n_enabled;
	enum watch_handler handler;
	bool is_counted, is_in_pair;
};

struct seen_pair {
	const char *start, *stop;
	size_t target;
	double rate;
	uint64_t p50_ns, p99_ns, max_ns, open, orphans;
	const char *note; /* what to do about its orphans; NULL: nothing */
};

struct seen_target {
	const char *exe, *name; /* its title, and that from the last part of the path on */
	const char *problem;	/* NULL: none */
	bool is_up, knows_pids;
	const pid_t *pids;
	size_t n_pids;
	int64_t since_ns;
	double cost_per_hit_ns, cpu_overhead;
	double rate; /* of all its probes; NAN: of none is it known */
	struct watch_losses losses;
	const char *filter_mismatch;
};

struct sight {
	int64_t time_ns; /* CLOCK_REALTIME */
	struct seen_target *targets;
	size_t n_targets;
	struct seen_probe *probes; /* by target, then by name */
	size_t n_probes;
	struct seen_pair *pairs;
	size_t n_pairs;
	float *history; /* WATCH_COLUMNS for each probe, the oldest first; NULL: not copied */
	uint64_t most_hits;
	size_t longest_name, longest_exe, longest_pair; /* in columns of the screen */
	void *texts;					/* that all names are in */
};

/* NULL: memory is short. */
struct sight *sight_take(const struct watch *watch);
void sight_free(struct sight *sight);

/* Copy the last minute as well. WATCH is as it was for sight_take. Returns 0 or -ENOMEM. */
int sight_copy_history(struct sight *sight, const struct watch *watch);
/*
 * The last minute of PROBE: WATCH_COLUMNS rates. Without a copy, of WATCH, which is as it was for
 * sight_take.
 */
void sight_history(const struct sight *sight, const struct watch *watch,
		   const struct seen_probe *probe, float *rates);

/* The target that runs EXE, or the probe NAME of it; NULL: there is none. */
const struct seen_target *sight_find_target(const struct sight *sight, const char *exe);
struct seen_probe *sight_find_probe(const struct sight *sight, const char *exe, const char *name);

#endif

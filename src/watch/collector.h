/* SPDX-License-Identifier: MIT */
/*
 * The work of the garbage collector of a target: sums over the target's processes, read from their
 * memory at each tick. For a process that has ended, the sums include its last known figures.
 */
#ifndef WATCH_COLLECTOR_H
#define WATCH_COLLECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "watch/watch.h"

struct collected;

/* The figures of the collector that never decrease: of one process, or summed over processes. */
struct collector_sums {
	uint64_t minor_words, promoted_words, major_words, allocated_words;
	uint64_t minor_collections, major_collections, compactions;
};

struct collector {
	struct collected *processes; /* sorted by pid */
	size_t n;
	struct collector_sums ended;
	uint64_t pause_ns_at_tick;
	bool had_tick;
};

void collector_free(struct collector *collector);
/*
 * Set the processes of the target to the N PIDS, which are in ascending order. Open some of the
 * processes that are not open yet; a new process is opened one call later. Continue to read
 * processes that are no longer in PIDS as long as they run. Leave out processes that cannot be
 * read, or that run no known runtime. Return -ENOMEM or 0.
 */
int collector_follow(struct ocp_ctx *ctx, struct collector *collector, const pid_t *pids, size_t n);
/* Read the figures of all processes, and set the members of GC, except the rates. */
void collector_read(struct collector *collector, struct watch_gc *gc);
/*
 * Set the rates of GC from the changes since the last tick, DT_NS ago. PAIRS are the target's timed
 * pairs; if phases of the collector are among them, the share of pauses is computed from these.
 */
void collector_tick(struct collector *collector, const struct watch_pair *pairs, size_t n_pairs,
		    int64_t dt_ns, struct watch_gc *gc);

#endif

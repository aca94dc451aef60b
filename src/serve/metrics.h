/* SPDX-License-Identifier: MIT */
/* The state of a watch in the text formats of Prometheus and OpenMetrics. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "serve/buckets.h"
#include "serve/negotiate.h"
#include "base/strbuf.h"
#include "watch/watch.h"

/* The kinds of profiles for which the server has counters. */
enum profile_count_kind { COUNT_CPU, COUNT_ALLOC, COUNT_HEAP, COUNT_KINDS };

struct profile_counts {
	struct {
		uint64_t served, failed;
		/* Summed over the profiles that were served. */
		uint64_t samples, truncated, lost;
	} of[COUNT_KINDS];
	/* The newest message that heap_figures_write() made in `probes-memprof`. */
	const char *heaps; /* NULL: Gc.Memprof does not run */
	size_t n_heaps;	   /* the length of `heaps` in bytes */
};

/*
 * Write the metrics of WATCH. PROFILES: NULL if no profiles are served. LABEL_PID: split hits by
 * process.
 */
void metrics_write(struct strbuf *out, const struct watch *watch, enum exposition exposition,
		   const struct buckets *buckets, bool label_pid,
		   const struct profile_counts *profiles);

#endif

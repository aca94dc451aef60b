/* SPDX-License-Identifier: MIT */
/* Counters of the profiles that were served, for the metrics. */
#ifndef SERVE_PROFILE_COUNTS_H
#define SERVE_PROFILE_COUNTS_H

#include <stddef.h>
#include <stdint.h>

enum profile_count_kind { COUNT_CPU, COUNT_ALLOC, COUNT_HEAP, COUNT_KINDS };

struct profile_counts {
	struct {
		uint64_t served, failed;
		/* Summed over the profiles that were served. */
		uint64_t samples, truncated, lost;
	} of[COUNT_KINDS];
	/* The newest message of serve/heap_figures.h, with the current figures of Gc.Memprof. */
	const char *heaps; /* NULL: Gc.Memprof does not run */
	size_t n_heaps;	   /* bytes */
};

#endif

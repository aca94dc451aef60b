/* SPDX-License-Identifier: MIT */
/*
 * What the metrics show of profiles: counters of the profiles that were served, and the figures of
 * Gc.Memprof, which `probes-memprof` (serve/heap_child.c) sends to the measuring process every
 * second.
 */
#ifndef SERVE_PROFILE_COUNTS_H
#define SERVE_PROFILE_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/strbuf.h"
#include "memprof/heaps.h"

enum profile_count_kind { COUNT_CPU, COUNT_ALLOC, COUNT_HEAP, COUNT_KINDS };

struct profile_counts {
	struct {
		uint64_t served, failed;
		/* Summed over the profiles that were served. */
		uint64_t samples, truncated, lost;
	} of[COUNT_KINDS];
	/* The newest message of heap_figures_write(). */
	const char *heaps; /* NULL: Gc.Memprof does not run */
	size_t n_heaps;	   /* bytes */
};

/* The figures of one program. Numbers of words are estimates. */
struct heap_figures {
	uint64_t processes; /* number of profiled processes */
	uint64_t live_words;
	/* These two never decrease. */
	uint64_t allocated_words, lost_events;
};

/* Append the current figures of all programs of HEAPS to OUT, as a message. */
void heap_figures_write(struct strbuf *out, struct heaps *heaps);

/*
 * Read the figures of the next program from *AT in a message, and advance *AT past them. END is the
 * end of the message. *EXE points into the message. Return false if no figures are left, or if the
 * rest of the message is invalid.
 */
bool heap_figures_next(const char **at, const char *end, struct heap_figures *figures,
		       const char **exe);

#endif

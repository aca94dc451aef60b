/* SPDX-License-Identifier: MIT */
/*
 * The message that `probes-memprof`, which profiles heaps (serve/heap_child.h), sends to the
 * measuring process every second.
 */
#ifndef SERVE_HEAP_FIGURES_H
#define SERVE_HEAP_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include "memprof/heaps.h"
#include "base/strbuf.h"

/* The figures of one program. Numbers of words are estimates. */
struct heap_figures {
	uint64_t processes; /* number of profiled processes */
	uint64_t live_words;
	/* These two never decrease. */
	uint64_t allocated_words, lost_events;
};

void heap_figures_write(struct strbuf *out, struct heaps *heaps);

/*
 * Read the figures of the next program from *AT in a message, and advance *AT past them. END is the
 * end of the message. *EXE points into the message. Return false if no figures are left, or if the
 * rest of the message is invalid.
 */
bool heap_figures_next(const char **at, const char *end, struct heap_figures *figures,
		       const char **exe);

#endif

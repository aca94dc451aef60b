/* SPDX-License-Identifier: MIT */
/* What the process that profiles heaps (serve/heap_child.h) tells the measuring process every second. */
#ifndef SERVE_HEAP_FIGURES_H
#define SERVE_HEAP_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include "memprof/heaps.h"
#include "base/strbuf.h"

/* Of a program. Words are estimates. */
struct heap_figures {
	uint64_t processes; /* that are profiled */
	uint64_t live_words;
	/* These never decrease. */
	uint64_t allocated_words, lost_events;
};

void heap_figures_write(struct strbuf *out, struct heaps *heaps);

/*
 * Take the next of the N bytes at *AT, which moves behind it. *EXE points there. False: none is left, or the
 * rest is no such message.
 */
bool heap_figures_next(const char **at, const char *end, struct heap_figures *figures,
		       const char **exe);

#endif

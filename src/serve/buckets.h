/* SPDX-License-Identifier: MIT */
/*
 * The buckets of the histograms that are served: upper bounds in seconds, of which each counts what
 * took less. The kernel counts in narrower ones (OCP_BUCKETS, 8 an octave). A bound that is an edge
 * of those is exact; one that cuts a bucket takes the part of it that lies below, rounded down, as
 * if it were evenly filled. Both never go back, and never decrease from bound to bound.
 */
#ifndef SERVE_BUCKETS_H
#define SERVE_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_BUCKETS = 200 };

struct buckets {
	size_t n;
	uint64_t bounds_ns[MAX_BUCKETS]; /* ascending */
	char labels[MAX_BUCKETS][24];	 /* in seconds, as `le` has them */
};

/* 22 bounds, close to 1, 2.5 and 5 of each decade from 1 us to 10 s, that are edges. */
void buckets_set_default(struct buckets *buckets);

/*
 * Bounds in seconds, ascending, separated by commas, at least 1 ns, at most 10^9 s. Returns NULL,
 * or why TEXT is no such list; then BUCKETS is unchanged.
 */
const char *buckets_parse(struct buckets *buckets, const char *text);
/* Add a bound; returns as above. */
const char *buckets_add(struct buckets *buckets, double seconds);

/* How many of KERNEL's (OCP_BUCKETS of them) took less than BUCKETS' bounds, into COUNTS. */
void buckets_cumulate(const struct buckets *buckets, const uint64_t *kernel, uint64_t *counts);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The buckets of the histograms in the metrics. A bucket is given by its upper bound in seconds.
 * The kernel counts in narrower buckets (OCP_BUCKETS, 8 per octave). The count below a bound is
 * exact if the bound is the edge of a kernel bucket. If the bound is inside a kernel bucket, the
 * part of that bucket below the bound is estimated, rounded down, as if the bucket were evenly
 * filled. Counts never decrease over time, nor from one bound to the next.
 */
#ifndef SERVE_BUCKETS_H
#define SERVE_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_BUCKETS = 200 };

struct buckets {
	size_t n;
	uint64_t bounds_ns[MAX_BUCKETS]; /* the upper bounds, in ascending order */
	char labels[MAX_BUCKETS][24];	 /* the bounds in seconds, as values of the label `le` */
};

/*
 * Set 22 bounds on edges of kernel buckets, close to 1, 2.5 and 5 of each decade from 1 us to 10 s.
 */
void buckets_set_default(struct buckets *buckets);

/*
 * Parse TEXT, a list of bounds in seconds: ascending, separated by commas, from 1 ns to 10^9 s. If
 * TEXT is invalid, return the reason and leave BUCKETS unchanged. Otherwise return NULL.
 */
const char *buckets_parse(struct buckets *buckets, const char *text);
/*
 * Add a bound. If it is invalid, return the reason and leave BUCKETS unchanged. Otherwise return
 * NULL.
 */
const char *buckets_add(struct buckets *buckets, double seconds);

/*
 * From KERNEL, the OCP_BUCKETS counters of the kernel, compute for each bound of BUCKETS the number
 * of durations below the bound. Store these numbers in COUNTS.
 */
void buckets_cumulate(const struct buckets *buckets, const uint64_t *kernel, uint64_t *counts);

#endif

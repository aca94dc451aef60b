/* SPDX-License-Identifier: MIT */
/*
 * The layout of the maps for hits and times that are grouped by the value of an argument (object
 * measure_by). These maps are not pinned. The includer provides the __u32 and __u64 types.
 *
 *	map         type   key                 value
 *	by_hits     hash   struct measure_by   u64, hits
 *	by_others   array  number of a probe   u64, hits for which by_hits had no room
 *	by_pairs    hash   struct measure_by   u32, index in by_times
 *	by_times    array  index               struct measure_by_times
 *	by_open     hash   struct measure_open_key  struct measure_by_open
 *	by_key_open hash   struct measure_start_key u32, index in by_times
 *	by_frame_open LRU hash struct measure_frame_key u32, index in by_times
 *
 * The first config.n_pairs entries of by_times, indexed by the number of the pair, have the
 * times of all values for which there was no room.
 */
#ifndef MEASURE_BY_H
#define MEASURE_BY_H

#include "args.h"
#include "measure.h"

enum {
	MEASURE_BY_TEXT = 64, /* how many bytes of a string are compared */
	/* maximum number of groups of hits, for all probes; 2.5 MB */
	MEASURE_BY_MAX_HITS = 1 << 14,
	/* maximum number of groups of times, for all pairs; 4 KB each */
	MEASURE_BY_MAX_PAIRS = 1 << 12,
};

/*
 * The key of a group: a probe or pair, and a value of the argument. Strings count as equal if they
 * have the same length and the same first MEASURE_BY_TEXT bytes. All nans count as one value, and
 * so do 0.0 and -0.0.
 */
struct measure_by {
	__u32 what;   /* the number of the probe (by_hits) or of the pair (by_pairs) */
	__u32 type;   /* enum filter_type */
	__u64 number; /* the int, the bits of the float, or the length of the string in bytes */
	char text[MEASURE_BY_TEXT]; /* zeros after the string */
};

struct measure_by_times {
	__u64 count;
	__u64 sum_ns;
	__u64 min_ns_not; /* bitwise complement of the smallest duration */
	__u64 max_ns;
	__u64 buckets[MEASURE_BUCKETS];
};

/* The groups of the open starts: groups[i] is the index in by_times for measure_open.ring[i]. */
struct measure_by_open {
	__u32 groups[MEASURE_DEPTH];
};

_Static_assert(sizeof(struct measure_by) == 80, "shared by two compilers");
_Static_assert(sizeof(struct measure_by_times) == 32 + 8 * MEASURE_BUCKETS,
	       "shared by two compilers");

#endif

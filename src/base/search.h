/* SPDX-License-Identifier: MIT */
/* Comparing numbers, and binary search in sorted arrays. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stddef.h>

/* Compare two numbers of any type: below 0, 0, or above 0, like a comparator of qsort(3). */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/*
 * Evaluate to the first index I in [0, N) for which the expression IS_BEFORE is false, or to N if
 * there is none. IS_BEFORE refers to the index by the name I. It must be true for all indexes up to
 * some index, and false for all others.
 */
#define SEARCH(i, n, is_before)                                                                    \
	({                                                                                         \
		size_t search_low_ = 0, search_high_ = (n);                                        \
                                                                                                   \
		while (search_low_ < search_high_) {                                               \
			const size_t i = search_low_ + (search_high_ - search_low_) / 2;           \
                                                                                                   \
			if (is_before)                                                             \
				search_low_ = (i) + 1;                                             \
			else                                                                       \
				search_high_ = (i);                                                \
		}                                                                                  \
		search_low_;                                                                       \
	})

#endif

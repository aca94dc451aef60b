/* SPDX-License-Identifier: MIT */
/* Comparing numbers, and binary search in sorted arrays. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stddef.h>

/* Compare two numbers of any type. The result is below 0, 0, or above 0, as qsort(3) expects it. */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/*
 * Evaluate to the first index in [0, N) for which the expression IS_BEFORE is false, or to N if
 * IS_BEFORE is true for all of them. In IS_BEFORE, the name given as I stands for the index.
 * IS_BEFORE must be true for all indexes below some index, and false from that index on.
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

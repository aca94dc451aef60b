/* SPDX-License-Identifier: MIT */
/* Order, and binary search in sorted arrays. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stddef.h>

/* Below 0, 0, or above 0, as a comparator of qsort(3) returns it, for numbers of any type. */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* As the comparator of bsearch(3): the order of KEY and ELEMENT. */
typedef int (*search_compare_fn)(const void *key, const void *element);

/* The index of the first element of LIST that is not before KEY; N: all N elements are before KEY. */
static inline size_t search_first(const void *key, const void *list, size_t n, size_t size,
				  search_compare_fn compare)
{
	size_t low = 0, high = n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (compare(key, (const char *)list + middle * size) > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The index of the first element of LIST that is after KEY; N: none of the N elements is after KEY. */
static inline size_t search_after(const void *key, const void *list, size_t n, size_t size,
				  search_compare_fn compare)
{
	size_t low = 0, high = n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (compare(key, (const char *)list + middle * size) >= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif

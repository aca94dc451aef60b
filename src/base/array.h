/* SPDX-License-Identifier: MIT */
/*
 * Arrays that grow: a pointer and the number of elements. The number of slots follows from the
 * number of elements: it is the next power of two, and at least 8. So only array_add() may
 * allocate such an array. Elements can be removed.
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

#define ARRAY_FIRST_SLOTS 8

/*
 * Return LIST with room for N + 1 elements of SIZE bytes; NULL if out of memory: LIST is
 * unchanged.
 */
static inline void *array_grow(void *list, size_t n, size_t size)
{
	if (n == 0)
		return list ? list : reallocarray(NULL, ARRAY_FIRST_SLOTS, size);
	if (n < ARRAY_FIRST_SLOTS || (n & (n - 1)) != 0)
		return list;
	return reallocarray(list, 2 * n, size);
}

/*
 * Append an element to LIST of N elements, and add 1 to N. Return the address of the element, whose
 * bytes are not set, or NULL if there is no memory.
 */
#define array_add(list, n)                                                                         \
	({                                                                                         \
		__typeof__(list) array_grown_ =                                                    \
			array_grow((list), (n), sizeof(__typeof__(*(list))));                      \
                                                                                                   \
		if (array_grown_)                                                                  \
			(list) = array_grown_;                                                     \
		array_grown_ ? &array_grown_[(n)++] : NULL;                                        \
	})

#endif

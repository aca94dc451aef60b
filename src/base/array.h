/* SPDX-License-Identifier: MIT */
/*
 * Growing arrays. The owner of an array keeps a pointer and N, the number of elements, but not the
 * capacity. array_add() and array_grow() derive the capacity from N: it is at least 8, and at least
 * N rounded up to a power of two. So only these two may allocate the arrays. The owner can remove
 * elements, and then decreases N.
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

#define ARRAY_FIRST_SLOTS 8

/*
 * Return LIST, reallocated if necessary, with room for N + 1 elements of SIZE bytes each. Return
 * NULL if out of memory; LIST is then unchanged.
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
 * Append an element to LIST, which has N elements, and add 1 to N. Evaluate to the address of the
 * new element, which is not initialized, or to NULL if out of memory.
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

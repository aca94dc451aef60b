/* SPDX-License-Identifier: MIT */
/*
 * Arrays of object numbers, sorted by the names of the objects, so that an object can be found by
 * its name.
 */
#ifndef BASE_BY_NAME_H
#define BASE_BY_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/search.h"

typedef const char *(*by_name_fn)(const void *table, uint32_t number);

/*
 * Return the index of the object called NAME in NUMBERS[0..N). If there is no such object, return
 * the index at which to insert its number. Set *FOUND to whether there is one.
 */
static inline size_t by_name_place(const uint32_t *numbers, size_t n, by_name_fn name_of,
				   const void *table, const char *name, bool *found)
{
	const size_t place = SEARCH(i, n, strcmp(name_of(table, numbers[i]), name) < 0);

	*found = place < n && strcmp(name_of(table, numbers[place]), name) == 0;
	return place;
}

/* Insert NUMBER at index PLACE of NUMBERS[0..N). The array must have room for one more element. */
static inline void by_name_insert(uint32_t *numbers, size_t n, size_t place, uint32_t number)
{
	memmove(numbers + place + 1, numbers + place, (n - place) * sizeof(*numbers));
	numbers[place] = number;
}

#endif

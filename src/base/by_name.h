/* SPDX-License-Identifier: MIT */
/* Arrays of numbers of named objects, sorted by name. */
#ifndef BASE_BY_NAME_H
#define BASE_BY_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef const char *(*by_name_fn)(const void *table, uint32_t number);

/* The place of NAME in NUMBERS[0..N) if *FOUND, else the place to insert it. */
static inline size_t by_name_place(const uint32_t *numbers, size_t n, by_name_fn name_of,
				   const void *table, const char *name, bool *found)
{
	size_t low = 0, high = n;

	*found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name_of(table, numbers[middle]), name);

		if (order == 0)
			*found = true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Insert NUMBER at PLACE of NUMBERS[0..N), which has room for one more. */
static inline void by_name_insert(uint32_t *numbers, size_t n, size_t place, uint32_t number)
{
	memmove(numbers + place + 1, numbers + place, (n - place) * sizeof(*numbers));
	numbers[place] = number;
}

#endif

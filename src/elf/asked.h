/* SPDX-License-Identifier: MIT */
/* Questions about addresses: an array of structures whose first member is the address (va). */
#ifndef ELF_ASKED_H
#define ELF_ASKED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The index of the first of ASKED[0..N), sorted by address, that is not below VA; N: none. */
static inline size_t asked_from(const void *asked, size_t n, size_t bytes, uint64_t va)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t its_va;

		memcpy(&its_va, (const char *)asked + middle * bytes, sizeof(its_va));
		if (its_va < va)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif

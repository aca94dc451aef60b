/* SPDX-License-Identifier: MIT */
/* Questions about addresses: an array of structures whose first member is the address (va). */
#ifndef ELF_ASKED_H
#define ELF_ASKED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/search.h"

/* The index of the first of ASKED[0..N), sorted by address, that is not below VA; N: none. */
static inline size_t asked_from(const void *asked, size_t n, size_t bytes, uint64_t va)
{
	return SEARCH(i, n, *(const uint64_t *)((const char *)asked + i * bytes) < va);
}

#endif

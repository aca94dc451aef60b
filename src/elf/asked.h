/* SPDX-License-Identifier: MIT */
/* Search an array of requests: structures whose first member is an address (va). */
#ifndef ELF_ASKED_H
#define ELF_ASKED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/search.h"

/*
 * ASKED has N structures of BYTES bytes each, sorted by address. Return the index of the first
 * structure whose address is VA or above, or N if there is none.
 */
static inline size_t asked_from(const void *asked, size_t n, size_t bytes, uint64_t va)
{
	return SEARCH(i, n, *(const uint64_t *)((const char *)asked + i * bytes) < va);
}

#endif

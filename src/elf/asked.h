/* SPDX-License-Identifier: MIT */
/* Search an array of requests: structures whose first member is an address (va). */
#ifndef ELF_ASKED_H
#define ELF_ASKED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/search.h"

/*
 * Return the index of the first of ASKED[0..N), sorted by address, that is not below VA; N if
 * there is none. Each structure has BYTES bytes.
 */
static inline size_t asked_from(const void *asked, size_t n, size_t bytes, uint64_t va)
{
	return SEARCH(i, n, *(const uint64_t *)((const char *)asked + i * bytes) < va);
}

#endif

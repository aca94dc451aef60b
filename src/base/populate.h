/* SPDX-License-Identifier: MIT */
/*
 * Populate memory that will soon be written completely. One call makes the kernel provide all pages
 * of the memory. Without this call, the first write to each page causes a page fault.
 */
#ifndef BASE_POPULATE_H
#define BASE_POPULATE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* asm-generic/mman-common.h: Linux 5.14 */
#endif

/*
 * Populate the pages of the BYTES bytes at START. Linux before 5.14 refuses this call: the memory
 * stays usable, but the first write to each page causes a page fault.
 */
static inline void populate(void *start, size_t bytes)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t from = (uintptr_t)start & ~(page - 1);

	madvise((void *)from, (uintptr_t)start + bytes - from, MADV_POPULATE_WRITE);
}

/*
 * Populate the memory at START if it is large; small memory is likely to be populated already.
 * Return START, which may be NULL.
 */
static inline void *populate_if_large(void *start, size_t bytes)
{
	enum { LARGE_BYTES = 256 * 1024 };

	if (start && bytes >= LARGE_BYTES)
		populate(start, bytes);
	return start;
}

/* Allocate like malloc(3) and calloc(3), and populate the memory if it is large. */
static inline void *populated_malloc(size_t bytes)
{
	return populate_if_large(malloc(bytes), bytes);
}

static inline void *populated_calloc(size_t n, size_t size)
{
	return populate_if_large(calloc(n, size), n * size);
}

#endif

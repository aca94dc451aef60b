/* SPDX-License-Identifier: MIT */
/* Numbers keys. A key is a sequence of bytes; equal keys have the same number. */
#ifndef PROFILE_FORMATS_NUMBERING_H
#define PROFILE_FORMATS_NUMBERING_H

#include <stdbool.h>
#include <stddef.h>

/* Starts as all 0. */
struct numbering {
	void *tree; /* see tsearch(3) */
	size_t n;
};

/*
 * Set *NUMBER to the number of KEY. Keys are numbered from 0 in the order of their first calls.
 * *IS_NEW is set in the first call of KEY. Returns false if there is no memory.
 */
bool numbering_of(struct numbering *numbering, const void *key, size_t bytes, size_t *number,
		  bool *is_new);
void numbering_free(struct numbering *numbering);

#endif

/* SPDX-License-Identifier: MIT */
/* Assigns numbers to keys. A key is a sequence of bytes; equal keys get the same number. */
#ifndef PROFILE_FORMATS_NUMBERING_H
#define PROFILE_FORMATS_NUMBERING_H

#include <stdbool.h>
#include <stddef.h>

/* Initialise the struct with zeros. */
struct numbering {
	void *tree; /* see tsearch(3) */
	size_t n;
};

/*
 * Set *NUMBER to the number of KEY, which has BYTES bytes. Keys are numbered from 0 in the order in
 * which they first occur. Set *IS_NEW to whether KEY occurs for the first time. Return false if out
 * of memory.
 */
bool numbering_of(struct numbering *numbering, const void *key, size_t bytes, size_t *number,
		  bool *is_new);
void numbering_free(struct numbering *numbering);

#endif
